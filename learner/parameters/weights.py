"""The weights of a run, and everything that changes with them."""

import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.errors import ConfigurationError
from common.rl.model import BACKGROUND
from common.rl.moments import Moments, Plain
from common.rl.normalization import Normalization
from common.rl.rewards import UNCHANGED
from learner.parameters.moments_guard import MomentsGuard
from learner.parameters.optimizers import FlatOptimizer
from learner.parameters.transport import halved, transport

TARGET = "target"
"""Name of the target network's vector in a checkpoint, beside the optimizer's tensors."""


class TargetNetwork:
    """A delayed copy of the weights, for the targets of algorithms that learn values.

    The first step beyond each multiple of a number of frames renews it: Mnih et al. 2016,
    https://arxiv.org/abs/1602.01783, algorithms 1 and S2.
    """

    def __init__(self, vector: Tensor, every: int, clock: NDArray[np.float32], frames: int) -> None:
        """`vector`: the copy, (size,) on the device of the weights, which is renewed every `every` frames.

        `clock`: (1,); each step sets it to the frames of the run, which are `frames` so far.
        """
        self.vector = vector
        self._every = every
        self._clock = clock
        self._clock.fill(frames)
        self._period = frames // every

    def stepped(self, weights: Tensor, frames: int) -> None:
        """Note a step to `weights` (size,), `frames` into the run; renew the copy if that is due."""
        self._clock.fill(frames)
        if frames // self._every > self._period:
            self._period = frames // self._every
            self.vector.copy_(weights)


class Weights:
    """One flat float32 vector on the optimizer's device, its optimizer, target network and running statistics."""

    def __init__(
        self,
        optimizer: FlatOptimizer,
        extras: NDArray[np.float32],
        normalization: Normalization = UNCHANGED,
        *,
        target: TargetNetwork | None = None,
    ) -> None:
        """`extras`: those of the model; the running statistics are their first part."""
        self.transport = transport(optimizer.vector.device)
        self.vector = optimizer.vector
        self.optimizer = optimizer
        self.extras = extras
        self.target = target
        self._normalization = normalization
        self._statistics = extras[: normalization.size]
        self._moments = Moments.empty(normalization.counted)
        self._guard = MomentsGuard()
        self._merged = self._moments
        """The moments of this version, together with those of contributions to the next."""
        self.end_version()

    def merge(self, more: Moments, source: str = "") -> None:
        """Add the moments that the actor `source` counted to those of the next version, as far as they are believed.

        The running statistics do not change before `end_version`.
        """
        self._merged = self._merged.merged(self._guard.believed(source, more))

    def step(self, gradient: Tensor, *, scale: float, frames: int, taken: Tensor | None = None) -> None:
        """As `FlatOptimizer.step`."""
        self.optimizer.step(gradient, scale=scale, frames=frames, taken=taken)
        if self.target is not None:
            self.target.stepped(self.vector, frames)

    def restore(self, vector: NDArray[np.float32], state: Mapping[str, NDArray[Any]], moments: Moments | None) -> None:
        """Restore what a checkpoint keeps: the vector, the `state` beside it, and the moments (None: no moments).

        Raises ConfigurationError, with nothing changed, if they are not of this network and optimizer.
        """
        size = self.vector.numel()
        if vector.size != size:
            raise ConfigurationError(f"it holds {vector.size} parameters, not {size}")
        # The background is the run's own from its beginning; the model has taken it over (`Model.load_background`).
        tensors = {name: torch.from_numpy(array) for name, array in state.items() if name != BACKGROUND}
        copied = tensors.pop(TARGET, torch.zeros(0)) if self.target is not None else None
        if copied is not None and copied.numel() != size:
            raise ConfigurationError(f"its target network has {copied.numel()} parameters, not {size}")
        self.optimizer.load(tensors)
        self.vector.copy_(torch.from_numpy(vector))
        if self.target is not None and copied is not None:
            self.target.vector.copy_(copied)
        self._merged = Moments.empty(self._normalization.counted) if moments is None else moments
        self.end_version()

    def end_version(self) -> None:
        """End a version after its optimizer steps; the running statistics change only here, between two versions."""
        self._moments = self._merged
        if self._normalization.size:
            self._statistics[:] = self._normalization.extras(self._moments)

    def vectors(self, *, half: bool = False) -> list[NDArray[Any]]:
        """Return the vectors that are sent: the weights, then the target network's if there is one. Views or copies.

        half: fetch those of a device in half precision, which takes half of the bytes.
        """
        vectors = [self.vector] if self.target is None else [self.vector, self.target.vector]
        if self.transport.is_host:
            return [vector.detach().numpy() for vector in vectors]
        return [self.transport.down(halved(vector) if half else vector) for vector in vectors]

    @property
    def checksum(self) -> int:
        """CRC-32 of the vector and the extras."""
        return zlib.crc32(self.extras.data, zlib.crc32(self.vectors()[0].data))

    @property
    def digest(self) -> str:
        """SHA-256 of the vector and the extras, in hexadecimal digits."""
        found = hashlib.sha256(self.vectors()[0].data)
        found.update(self.extras.data)
        return found.hexdigest()

    @property
    def finite(self) -> bool:
        return _finite(self.vector)

    @property
    def may_be_saved(self) -> bool:
        """Whether all that a checkpoint keeps is finite; takes longer than `finite`, which checks only the weights."""
        tensors = (self.vector, *self.state().values())
        return all(_finite(tensor) for tensor in tensors if tensor.is_floating_point())

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint keeps besides the vector: the optimizer's statistics, target network, background."""
        background = torch.from_numpy(self._normalization.background(self.extras))
        return (
            self.optimizer.state()
            | ({} if self.target is None else {TARGET: self.target.vector})
            | ({BACKGROUND: background} if len(background) else {})
        )

    @property
    def moments(self) -> Plain | None:
        """The moments behind this version's running statistics, for a checkpoint; None while nothing is counted."""
        return self._moments.plain() if self._moments.count else None


def _finite(tensor: Tensor) -> bool:
    """Return whether all elements of the tensor are finite: NaN propagates to both ends of their range.

    Testing each element would take 140 MB of new memory for 20 million of them, and thirty times as long.
    """
    return bool(torch.isfinite(torch.stack(torch.aminmax(tensor))).all())
