"""The kind and shape of one action."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from common.errors import CodecError

Kind = Literal["discrete", "multi-discrete", "box"]
LogStd = Literal["parameter", "state"]


@dataclass(frozen=True)
class ActionSpec:
    """One action, without the batch axis.

    `discrete`: one int64 in 0..sizes[0]-1, shape (). `multi-discrete`: several, in the order of `sizes`, in an array of
    `shape`. `box`: float32 of `shape`, drawn from a Gaussian of independent numbers without bounds, which
    `common.rl.environments.actions` maps into the environment's bounds.
    """

    kind: Kind
    sizes: tuple[int, ...] = ()
    """How many values each number can take; empty for a box."""
    shape: tuple[int, ...] = ()
    squashed: tuple[bool, ...] = ()
    """For a box: whether each number is squashed by tanh; its log-probability is then that of the squashed number."""
    log_std: LogStd = "parameter"
    """For a box. "parameter": log standard deviations are parameters. "state": standard deviations are the softplus of
    outputs of the network."""

    @property
    def count(self) -> int:
        """Numbers in an action."""
        return math.prod(self.shape)

    @property
    def width(self) -> int:
        """Numbers that describe the distribution of an action: logits (or values), or means and then log-stds."""
        return 2 * self.count if self.kind == "box" else sum(self.sizes)

    @property
    def outputs(self) -> int:
        """How many of `width` the layers compute from the state: all but log-stds that are parameters."""
        return self.count if self.kind == "box" and self.log_std == "parameter" else self.width

    @property
    def dtype(self) -> DTypeLike:
        return np.float32 if self.kind == "box" else np.int64

    @property
    def packed(self) -> np.dtype[Any]:
        """Element type in a message: float32, or the smallest unsigned integer for all choices; little-endian."""
        return np.dtype("<f4") if self.kind == "box" else narrow(max(self.sizes))

    def choices(self, packed: NDArray[Any]) -> NDArray[np.int64]:
        """Unpack choices (..., *shape); raises CodecError for one out of range."""
        if (packed >= np.array(self.sizes).reshape(self.shape)).any():
            raise CodecError(f"an action beyond the {' x '.join(map(str, self.sizes))} there are")
        return packed.astype(np.int64)

    @property
    def suffix(self) -> str:
        """Text for a network's architecture: the properties of the distribution that `width` does not determine."""
        if self.kind == "discrete":
            return ""
        if self.kind == "box":
            return f" box {self.log_std} {''.join('nt'[one] for one in self.squashed)}"
        return f" {self.kind} {self.sizes}"


def narrow(values: int) -> np.dtype[Any]:
    """Return the smallest unsigned type that holds 0..values-1, little-endian."""
    return np.dtype(np.min_scalar_type(values - 1)).newbyteorder("<")


def discrete(actions: int) -> ActionSpec:
    return ActionSpec("discrete", (actions,))
