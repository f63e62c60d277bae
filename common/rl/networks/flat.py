"""All parameters of a network in one vector and all gradients in another, for the wire and for the optimizer."""

from dataclasses import dataclass

import torch
from torch import Tensor

from common.rl.model import Layout, fingerprint
from common.rl.networks.heads import PolicyValue


@dataclass(frozen=True, eq=False)
class FlatParameters:
    """The two vectors; each parameter has its place in both, in the order of `layout` without gaps."""

    vector: Tensor
    """float32 (size,); the network's parameters are views of it, so writing here changes the network."""
    gradient: Tensor
    """float32 (size,); every `.grad` is a view of it, so `backward()` adds to it."""
    layout: Layout
    """Name and shape of each parameter."""
    architecture: str

    @property
    def size(self) -> int:
        return self.vector.numel()

    @property
    def hash(self) -> str:
        """16 hexadecimal digits, different for different networks."""
        return fingerprint(self.architecture, self.layout)

    def zero(self) -> None:
        """Set the gradient to 0. `Module.zero_grad()` must not be used: by default it drops the views."""
        self.gradient.zero_()


def flatten(network: PolicyValue) -> FlatParameters:
    """Make the parameters of a network views of one vector, and their gradients views of another.

    Autograd adds in place to an existing `.grad` (unless `create_graph` is set), so the views stay.
    Raises ValueError for parameters that are not float32.
    """
    parameters = dict(network.named_parameters())
    for name, parameter in parameters.items():
        if parameter.dtype != torch.float32:
            raise ValueError(f"parameter {name} is {parameter.dtype}, not float32")
    layout = tuple((name, tuple(parameter.shape)) for name, parameter in parameters.items())
    vector = torch.cat([parameter.detach().flatten() for parameter in parameters.values()])
    gradient = torch.zeros_like(vector)
    sizes = [parameter.numel() for parameter in parameters.values()]
    values, slopes = torch.split(vector, sizes), torch.split(gradient, sizes)
    for parameter, value, slope in zip(parameters.values(), values, slopes, strict=True):
        parameter.data = value.view(parameter.shape)
        parameter.grad = slope.view(parameter.shape)
    return FlatParameters(vector, gradient, layout, network.architecture)
