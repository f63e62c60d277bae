"""What a network decides on: the kind and shape of one action."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from common.errors import CodecError

Kind = Literal["discrete", "multi-discrete", "box"]
Spread = Literal["parameter", "state"]


@dataclass(frozen=True)
class ActionSpec:
    """One action, without the batch axis.

    `discrete`: one int64 in 0..sizes[0]-1, shape (). `multi-discrete`: several, in the order of `sizes`, in an array of
    `shape`. `box`: float32 of `shape`, drawn from a Gaussian of independent numbers that has no bounds; what the
    environment is given is made of it there (`common.rl.environments.actions`).
    """

    kind: Kind
    sizes: tuple[int, ...] = ()
    """Choices of each number; none for a box."""
    shape: tuple[int, ...] = ()
    """Of one action as an array."""
    squashed: tuple[bool, ...] = ()
    """Of a box: which numbers the environment takes the tanh of; their log-probabilities are those of the tanh."""
    spread: Spread = "parameter"
    """Of a box: the logarithms of the standard deviations are parameters, or softplus of outputs of their own."""

    def __post_init__(self) -> None:
        count = math.prod(self.shape)
        if self.kind == "box":
            if self.sizes or count < 1 or len(self.squashed) != count:
                raise ValueError(f"a box of shape {self.shape} has no sizes and as many numbers, 1 or more, squashed")
        elif self.squashed or not self.sizes or min(self.sizes) < 1 or len(self.sizes) != count:
            raise ValueError(f"{self.kind} actions of shape {self.shape} have sizes of 1 or more, not {self.sizes}")
        elif self.kind == "discrete" and self.shape:
            raise ValueError(f"discrete actions have one size and no shape, not {self.sizes} and {self.shape}")

    @property
    def count(self) -> int:
        """Numbers in an action."""
        return math.prod(self.shape)

    @property
    def width(self) -> int:
        """What describes the distribution of an action, or values each action: logits, or means and then spreads."""
        return 2 * self.count if self.kind == "box" else sum(self.sizes)

    @property
    def outputs(self) -> int:
        """How much of `width` depends on the state: all, or without spreads that are parameters."""
        return self.count if self.kind == "box" and self.spread == "parameter" else self.width

    @property
    def dtype(self) -> DTypeLike:
        """Of actions as arrays."""
        return np.float32 if self.kind == "box" else np.int64

    @property
    def packed(self) -> np.dtype[Any]:
        """Of actions in a message: float32, or the smallest unsigned integer that holds all choices; little-endian."""
        return np.dtype("<f4") if self.kind == "box" else narrow(max(self.sizes))

    def choices(self, packed: NDArray[Any]) -> NDArray[np.int64]:
        """Packed choices (..., *shape) as they are; raises CodecError for one that there is not."""
        if (packed >= np.array(self.sizes).reshape(self.shape)).any():
            raise CodecError(f"an action beyond the {' x '.join(map(str, self.sizes))} there are")
        return packed.astype(np.int64)

    @property
    def text(self) -> str:
        """What the width does not say of how actions come about."""
        if self.kind == "box":
            return f"box {self.spread} {''.join('nt'[one] for one in self.squashed)}"
        return f"{self.kind} {self.sizes}"


def narrow(values: int) -> np.dtype[Any]:
    """The smallest unsigned type that holds 0..values-1, little-endian."""
    return np.dtype(np.min_scalar_type(values - 1)).newbyteorder("<")


def discrete(actions: int) -> ActionSpec:
    """One of so many actions."""
    return ActionSpec("discrete", (actions,))
