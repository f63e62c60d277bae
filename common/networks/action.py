"""What a network decides on: the kind and shape of one action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ActionSpec:
    """One action, without the batch axis.

    `discrete`: one int64 in 0..sizes[0]-1, shape ().
    """

    kind: Literal["discrete"]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != 1 or min(self.sizes) < 1:
            raise ValueError(f"discrete actions have one size of 1 or more, not {self.sizes}")

    @property
    def width(self) -> int:
        """Outputs of the network that describe the distribution of an action, or value each action."""
        return sum(self.sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action as an array."""
        return ()


def discrete(actions: int) -> ActionSpec:
    """One of so many actions."""
    return ActionSpec("discrete", (actions,))
