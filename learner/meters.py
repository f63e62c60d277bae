"""Running measurements for the learner's hot path: constant time per event, bounded memory, and no clock.

`now` is always passed in: seconds of a monotonic clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

import msgspec

from common.rl.episode import Episode

BUCKETS = 20
"""Slices of a sliding window: the oldest is forgotten as a whole, so a rate is off by at most 1/20 of the window."""
LARGEST = 1e30
"""A return beyond this is taken for damage: it would drown all others in a sum."""
MAX_NAMES = 32
"""Statistics come from other hosts; more names than this are not kept."""


class Rate:
    """Amount per second over the last `window` seconds; from the start, until the window is full."""

    def __init__(self, window: float, now: float) -> None:
        """`window` in seconds; counting starts at `now`."""
        self._width = window / BUCKETS
        self._started = now
        self._slots = [0.0] * (BUCKETS + 1)
        self._slot = self._number(now)

    def add(self, now: float, amount: float = 1.0) -> None:
        """`amount` happened at `now`."""
        self._advance(now)
        self._slots[self._slot % len(self._slots)] += amount

    def value(self, now: float) -> float:
        """Per second, as of `now`."""
        self._advance(now)
        since = max(self._started, (self._slot - BUCKETS) * self._width)
        return sum(self._slots) / max(now - since, self._width)

    def _number(self, now: float) -> int:
        return math.floor(now / self._width)

    def _advance(self, now: float) -> None:
        newest = self._number(now)
        for slot in range(max(self._slot + 1, newest - BUCKETS), newest + 1):
            self._slots[slot % len(self._slots)] = 0.0
        self._slot = max(self._slot, newest)


class Busy:
    """Fraction of the time at work: over the last seconds, and since the start."""

    def __init__(self, window: float, now: float) -> None:
        """`window` in seconds; the time before `now` does not count."""
        self._recent = Rate(window, now)
        self._started = now
        self._worked = 0.0

    def working(self, now: float, seconds: float) -> None:
        """A piece of work of `seconds` that ended at `now`."""
        self._recent.add(now, seconds)
        self._worked += seconds

    def recent(self, now: float) -> float:
        """0 to 1, over the window."""
        return min(1.0, self._recent.value(now))

    def overall(self, now: float) -> float:
        """0 to 1, since the start."""
        elapsed = now - self._started
        return min(1.0, self._worked / elapsed) if elapsed > 0.0 else 0.0


class EpisodeWindow:
    """The last `size` finished episodes: their means, and the best mean return a full window ever had."""

    def __init__(self, size: int, *, episodes: int = 0, best_return: float | None = None) -> None:
        """`episodes` and `best_return` are those of the run's earlier epochs."""
        self.size = size
        self.episodes = episodes
        self.best_return = best_return
        self._kept: deque[Episode] = deque()
        self._sums = (0.0, 0.0, 0.0)
        self._until_exact = size

    def add(self, episode: Episode) -> bool:
        """A finished episode; False: not counted, since its figures cannot be (an actor sent nan, say)."""
        if not (abs(episode.episode_return) <= LARGEST and episode.length >= 0 and 0.0 <= episode.seconds <= LARGEST):
            return False
        self.episodes += 1
        returns, lengths, times = self._sums
        if len(self._kept) == self.size:
            old = self._kept.popleft()
            returns, lengths, times = returns - old.episode_return, lengths - old.length, times - old.seconds
        self._kept.append(episode)
        self._sums = (returns + episode.episode_return, lengths + episode.length, times + episode.seconds)
        self._until_exact -= 1
        if self._until_exact == 0:
            self._sum_exactly()
        if self.full and (self.best_return is None or self._sums[0] / self.size > self.best_return):
            self.best_return = self._sums[0] / self.size
        return True

    @property
    def full(self) -> bool:
        """Whether `size` episodes are in the means."""
        return len(self._kept) == self.size

    @property
    def mean_return(self) -> float | None:
        """Undiscounted; None before the first episode."""
        return self._mean(0)

    @property
    def mean_length(self) -> float | None:
        """In agent steps; None before the first episode."""
        return self._mean(1)

    @property
    def mean_seconds(self) -> float | None:
        """Wall time; None before the first episode."""
        return self._mean(2)

    def _mean(self, column: int) -> float | None:
        return self._sums[column] / len(self._kept) if self._kept else None

    def _sum_exactly(self) -> None:
        """Once per window's length, so that rounding in the running sums does not pile up over days."""
        returns, lengths, times = (
            math.fsum(column) for column in zip(*map(msgspec.structs.astuple, self._kept), strict=True)
        )
        self._sums = (returns, lengths, times)
        self._until_exact = self.size


class LagMeter:
    """Lag of gradients: mean and 95th percentile, of the last `window` of them and of all."""

    _EXACT = 64
    _PER_OCTAVE = 32

    def __init__(self, window: int = 1024) -> None:
        """`window` in gradients."""
        self._recent: deque[int] = deque()
        self._window = window
        self._recent_sum = 0
        self._sum = 0
        self._count = 0
        self._histogram = [0] * (self._bin(2**63 - 1) + 1)

    def add(self, lag: int) -> None:
        """A gradient with this `lag`, 0 to 2**63 - 1."""
        if len(self._recent) == self._window:
            self._recent_sum -= self._recent.popleft()
        self._recent.append(lag)
        self._recent_sum += lag
        self._sum += lag
        self._count += 1
        self._histogram[self._bin(lag)] += 1

    @property
    def recent_mean(self) -> float:
        """0 before the first gradient."""
        return self._recent_sum / len(self._recent) if self._recent else 0.0

    @property
    def recent_p95(self) -> float:
        """The smallest lag that at least 95 % of the window do not exceed. Sorts: for the status, not the hot path."""
        ordered = sorted(self._recent)
        return float(ordered[_rank95(len(ordered)) - 1]) if ordered else 0.0

    @property
    def mean(self) -> float:
        """Over all gradients; 0 before the first."""
        return self._sum / self._count if self._count else 0.0

    @property
    def p95(self) -> float:
        """Over all gradients: exact below 64, then up to 1/32 too low."""
        left = _rank95(self._count)
        for index, count in enumerate(self._histogram):
            left -= count
            if left <= 0 < count:
                return float(self._floor(index))
        return 0.0

    @classmethod
    def _bin(cls, lag: int) -> int:
        shift = max(0, lag.bit_length() - cls._EXACT.bit_length() + 1)
        return (lag >> shift) + shift * cls._PER_OCTAVE

    @classmethod
    def _floor(cls, index: int) -> int:
        shift = max(0, index // cls._PER_OCTAVE - 1)
        return (index - shift * cls._PER_OCTAVE) << shift


def _rank95(count: int) -> int:
    """Which of `count` ordered values is the 95th percentile, from 1 (the nearest rank)."""
    return -(-95 * count // 100)


class Smoothed:
    """Exponential means of named figures, the losses for example; the first of a name counts in full."""

    def __init__(self, weight: float = 0.02) -> None:
        """`weight` of a new figure, 0 to 1: 0.02 remembers about the last 50."""
        self._weight = weight
        self.values: dict[str, float] = {}

    def add(self, figures: Mapping[str, float]) -> None:
        """One gradient's statistics; what is not finite is left out."""
        for name, value in figures.items():
            if not math.isfinite(value):
                continue
            if name in self.values:
                self.values[name] += self._weight * (value - self.values[name])
            elif len(self.values) < MAX_NAMES:
                self.values[name] = value
