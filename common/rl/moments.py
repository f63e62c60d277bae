"""Counts, means and squared deviations: what running means and variances are merged from.

Chan, Golub and LeVeque 1983, https://doi.org/10.1080/00031305.1983.10483115: exact whatever the order, and, unlike sums
of squares, without loss where a mean is large against its deviations.
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
"""As in headers and checkpoints: count, means, sums of squared deviations from them."""
LARGEST = 1e30
"""Of a number that is counted: the square of what is made of it still is one in float64."""
_Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Of `count` vectors of so many numbers each."""

    count: int
    means: _Doubles
    squares: _Doubles
    """Sums of squared deviations from the means."""

    @property
    def variances(self) -> _Doubles:
        """1 for each number while nothing is counted."""
        return self.squares / self.count if self.count else np.ones_like(self.squares)

    @property
    def usable(self) -> bool:
        """Whether a learner takes them: every number finite and within LARGEST."""
        most = np.max(np.abs(self.means), initial=0.0)
        return bool(most <= LARGEST and np.isfinite(self.squares).all())

    def merged(self, other: Moments) -> Moments:
        """Of the vectors of both."""
        count = self.count + other.count
        if not count:
            return self
        apart = other.means - self.means
        means = self.means + apart * (other.count / count)
        squares = self.squares + other.squares + apart * apart * (self.count * (other.count / count))
        return Moments(count, means, squares)

    def plain(self) -> Plain:
        """As it travels."""
        return self.count, self.means.tolist(), self.squares.tolist()


def none(size: int) -> Moments:
    """Of no vector of `size` numbers."""
    return Moments(0, np.zeros(size), np.zeros(size))


def of(values: NDArray[Any]) -> Moments:
    """Of the rows of `values` (N, size)."""
    if not len(values):
        return none(values.shape[1])
    doubles = values.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is seen by `usable`
        means = doubles.mean(axis=0)
        return Moments(len(doubles), means, np.square(doubles - means).sum(axis=0))


def read(plain: Plain, size: int) -> Moments:
    """What a peer or a file says; raises CodecError for what cannot be the moments of vectors of `size` numbers."""
    count, means, squares = plain
    if count < 1 or len(means) != size or len(squares) != size:
        raise CodecError(f"moments of {count} vectors of {len(means)} and {len(squares)} numbers, {size} are counted")
    moments = Moments(count, np.array(means, np.float64), np.array(squares, np.float64))
    if not moments.usable or np.min(moments.squares, initial=0.0) < 0:
        raise CodecError("moments that are not finite, negative, or of numbers too large")
    if np.max(moments.squares, initial=0.0) > 4 * LARGEST**2 * count:
        raise CodecError("moments of deviations too large")
    return moments


def read_all(plains: Sequence[Plain], size: int, *, rollouts: int, steps: int) -> Moments:
    """Those of a gradient of so many rollouts, merged; raises CodecError where they are not of its `steps`."""
    if len(plains) > (rollouts if size else 0):
        raise CodecError(f"{len(plains)} moments of {rollouts} rollouts in a run that counts {size} numbers")
    merged = none(size)
    for plain in plains:
        merged = merged.merged(read(plain, size))
    if size and merged.count != steps:
        raise CodecError(f"moments of {merged.count} steps, the gradient is of {steps}")
    return merged


def of_checkpoint(state: Mapping[str, Any], size: int) -> Moments | None:
    """Those that a checkpoint's state holds, of vectors of `size` numbers; None if it holds none.

    Raises ConfigurationError where they do not fit.
    """
    plain = state.get("moments")
    if plain is None or not size:
        return None
    try:
        return read(msgspec.convert(plain, Plain), size)
    except (CodecError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"the checkpoint's running statistics do not fit the settings: {error}") from error


def bytes_in_header(size: int) -> int:
    """At most so many bytes are the moments of `size` numbers in a header."""
    return 2 * 9 * size + 32
