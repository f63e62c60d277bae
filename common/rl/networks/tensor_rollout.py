"""A rollout on the device of the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.rl.rollout import Rollout


class TensorRollout(Rollout):
    """A `Rollout` of tensors on one device instead of arrays. Do not read `steps`: that would wait for the device."""

    def columns(self, chosen: NDArray[np.int64] | Tensor) -> TensorRollout:
        """chosen: (n,), on the device."""
        parts: dict[str, Any] = self.parts()
        return TensorRollout(**{name: part.index_select(_axis(name), chosen) for name, part in parts.items()})

    def shared_out(self, devices: Sequence[torch.device]) -> list[TensorRollout]:
        """Return one part for each device, in order, with nearly equal numbers of environments.

        Devices are left out, from the last, if there are fewer environments.
        """
        some = devices[: self.rewards.shape[1]]
        cut: dict[str, Any] = {
            name: torch.tensor_split(part, len(some), dim=_axis(name)) for name, part in self.parts().items()
        }
        return [
            TensorRollout(**{name: pieces[number].to(device, non_blocking=True) for name, pieces in cut.items()})
            for number, device in enumerate(some)
        ]

    def parts(self) -> dict[str, Any]:
        return self._parts()


def join(rollouts: Sequence[TensorRollout]) -> TensorRollout:
    """Join rollouts of the same number of steps into one of all their environments."""
    if len(rollouts) == 1:
        return rollouts[0]
    parts = [rollout.parts() for rollout in rollouts]
    joined: dict[str, Any] = {name: torch.cat([part[name] for part in parts], dim=_axis(name)) for name in parts[0]}
    return TensorRollout(**joined)


def _axis(name: str) -> int:
    """Return the axis of the environments in the part `name`."""
    return 0 if name == "state" else 1
