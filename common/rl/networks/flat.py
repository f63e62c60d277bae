"""All parameters of a network in one vector and all gradients in another: one frame on the wire, one optimizer step."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from common.rl.networks.heads import PolicyValue


@dataclass(frozen=True, eq=False)
class FlatParameters:
    """The two vectors and where each parameter lies in them, in the order of `layout` without gaps."""

    vector: Tensor
    """float32 (size,); the network's parameters are views of it, so writing here changes the network."""
    gradient: Tensor
    """float32 (size,); every `.grad` is a view of it, so `backward()` adds to it."""
    layout: tuple[tuple[str, tuple[int, ...]], ...]
    """Name and shape of each parameter."""
    architecture: str
    """What the layout does not say about the network."""

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.vector.numel()

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that differ where two networks do; the two ends of the wire compare them."""
        return hashlib.sha256(repr((self.architecture, self.layout)).encode()).hexdigest()[:16]

    def zero(self) -> None:
        """Set the gradient to 0. `Module.zero_grad()` must not be used: by default it drops the views."""
        self.gradient.zero_()


def flatten(network: PolicyValue) -> FlatParameters:
    """Move the parameters of a network into one vector, and preset their gradients to views of another.

    Autograd adds in place to a `.grad` that is there already (unless `create_graph` is set), so the views last.
    Raises ValueError for parameters that are not float32.
    """
    parameters = dict(network.named_parameters())
    for name, parameter in parameters.items():
        if parameter.dtype != torch.float32:
            raise ValueError(f"parameter {name} is {parameter.dtype}, not float32")
    layout = tuple((name, tuple(parameter.shape)) for name, parameter in parameters.items())
    vector = torch.cat([parameter.detach().flatten() for parameter in parameters.values()])
    gradient = torch.zeros_like(vector)
    values, gradients = _views(vector, layout), _views(gradient, layout)
    for name, parameter in parameters.items():
        parameter.data = values[name]
        parameter.grad = gradients[name]
    return FlatParameters(vector, gradient, layout, network.architecture)


def _views(vector: Tensor, layout: tuple[tuple[str, tuple[int, ...]], ...]) -> dict[str, Tensor]:
    parts = torch.split(vector, [math.prod(shape) for _, shape in layout])
    return {name: part.view(shape) for (name, shape), part in zip(layout, parts, strict=True)}
