"""Counts, means and squared deviations, from which running means and variances are merged.

Chan, Golub and LeVeque 1983, https://doi.org/10.1080/00031305.1983.10483115: exact in any order and, unlike sums of
squares, without cancellation if the mean is large compared with the deviations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from common.errors import CodecError, ConfigurationError

Plain = tuple[int, list[float], list[float]]
"""The form in headers and checkpoints: count, means, sums of squared deviations from them."""
MAX_MEAN = 1e30
"""Largest magnitude of a mean; its square is finite in float64."""
ROUNDING = 1.01
"""Room that merging takes for its rounding errors, as a factor on the mean square."""
_Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments of `count` vectors of the same size."""

    count: int
    means: _Doubles
    squares: _Doubles
    """Sums of squared deviations from the means."""

    @classmethod
    def empty(cls, size: int) -> Moments:
        return cls(0, np.zeros(size), np.zeros(size))

    @classmethod
    def from_rows(cls, values: NDArray[Any]) -> Moments:
        """Return the moments of the rows of `values` (N, size)."""
        if not len(values):
            return cls.empty(values.shape[1])
        doubles = values.astype(np.float64, copy=False)
        with np.errstate(invalid="ignore", over="ignore"):  # `usable` finds what is not finite
            means = doubles.mean(axis=0)
            return cls(len(doubles), means, np.square(doubles - means).sum(axis=0))

    @classmethod
    def parse(cls, plain: Plain, size: int, *, room: float = 1.0) -> Moments:
        """Check moments from a peer or a file; raises CodecError if no vectors of `size` numbers can have them.

        room: factor on the bound of the mean square.
        """
        count, means, squares = plain
        if count < 1 or len(means) != size or len(squares) != size:
            raise CodecError(f"moments of {count} vectors of {len(means)} and {len(squares)} numbers, not of {size}")
        moments = cls(count, np.array(means, np.float64), np.array(squares, np.float64))
        with np.errstate(invalid="ignore", over="ignore"):
            total = moments.squares + count * moments.means**2
        # Sums of squares are added when moments are merged: what keeps this bound keeps it for good.
        if not ((moments.squares >= 0) & (total <= room * MAX_MEAN**2 * count)).all():
            raise CodecError("moments that are not finite, negative, or of numbers too large")
        return moments

    @classmethod
    def merge_all(cls, plains: Sequence[Plain], size: int, *, rollouts: int, steps: int) -> Moments:
        """Merge the moments of all rollouts of a gradient; raises CodecError unless they cover its `steps` steps."""
        if len(plains) > (rollouts if size else 0):
            raise CodecError(f"{len(plains)} moments of {rollouts} rollouts in a run that counts {size} numbers")
        merged = cls.empty(size)
        for plain in plains:
            merged = merged.merged(cls.parse(plain, size))
        if size and merged.count != steps:
            raise CodecError(f"moments of {merged.count} steps, the gradient is of {steps}")
        return merged

    @classmethod
    def from_checkpoint(cls, state: Mapping[str, Any], size: int) -> Moments | None:
        """Return the moments in a checkpoint's state, None if it has none; raises ConfigurationError for a misfit."""
        plain = state.get("moments")
        if plain is None or not size:
            return None
        try:
            return cls.parse(msgspec.convert(plain, Plain), size, room=ROUNDING)
        except (CodecError, msgspec.ValidationError) as error:
            raise ConfigurationError(f"the checkpoint's running statistics do not fit the settings: {error}") from error

    @property
    def variances(self) -> _Doubles:
        """(size,); 1 while nothing is counted."""
        return self.squares / self.count if self.count else np.ones_like(self.squares)

    @property
    def usable(self) -> bool:
        """Whether every number is finite, and every mean within MAX_MEAN."""
        most = np.max(np.abs(self.means), initial=0.0)
        return bool(most <= MAX_MEAN and np.isfinite(self.squares).all())

    def merged(self, other: Moments) -> Moments:
        if not other.count:
            return self
        count = self.count + other.count
        apart = other.means - self.means
        means = self.means + apart * (other.count / count)
        squares = self.squares + other.squares + apart * apart * (self.count * (other.count / count))
        return Moments(count, means, squares)

    def plain(self) -> Plain:
        return self.count, self.means.tolist(), self.squares.tolist()


def bytes_in_header(size: int) -> int:
    """Return the most bytes that the moments of `size` numbers take in a header."""
    return 2 * 9 * size + 32
