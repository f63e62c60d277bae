"""Running measurements for the learner's hot path: constant time per event, bounded memory, and no clock.

`now` is always passed in: seconds of a monotonic clock.
"""

import math
from collections import deque
from collections.abc import Mapping

import numpy as np

from common.rl.episode import Episode

BUCKETS = 20
"""Slices of a sliding window: the oldest is forgotten as a whole, so a rate is off by at most 1/20 of the window."""
LARGEST_FIGURE = 1e30
"""Figures come from other hosts; one beyond this is taken for damage: it would drown all others in a sum."""
LARGEST_LAG = 10_000
"""Larger lags are counted as this one in the percentile over all gradients."""


class Rate:
    """Amount per second over the last `window` seconds; from the start, until the window is full."""

    def __init__(self, window: float, now: float) -> None:
        self._width = window / BUCKETS
        self._started = now
        self._slots = [0.0] * (BUCKETS + 1)
        self._slot = math.floor(now / self._width)

    def add(self, now: float, amount: float = 1.0) -> None:
        self._advance(now)
        self._slots[self._slot % len(self._slots)] += amount

    def value(self, now: float) -> float:
        self._advance(now)
        since = max(self._started, (self._slot - BUCKETS) * self._width)
        return sum(self._slots) / max(now - since, self._width)

    def _advance(self, now: float) -> None:
        newest = math.floor(now / self._width)
        for slot in range(max(self._slot + 1, newest - BUCKETS), newest + 1):
            self._slots[slot % len(self._slots)] = 0.0
        self._slot = max(self._slot, newest)


class Busy:
    """Fraction of the time at work: over the last `window` seconds, and since the start."""

    def __init__(self, window: float, now: float) -> None:
        self._recent = Rate(window, now)
        self._started = now
        self.worked = 0.0
        """Seconds since the start."""

    def working(self, now: float, seconds: float) -> None:
        """`seconds` of work until `now`."""
        self._recent.add(now, seconds)
        self.worked += seconds

    def recent(self, now: float) -> float:
        return min(1.0, self._recent.value(now))

    def overall(self, now: float) -> float:
        elapsed = now - self._started
        return min(1.0, self.worked / elapsed) if elapsed > 0.0 else 0.0


class EpisodeWindow:
    """The last `size` finished episodes: their means, and the best mean return a full window ever had."""

    def __init__(self, size: int, *, episodes: int = 0, best_return: float | None = None) -> None:
        """`episodes` and `best_return` are those of the run's earlier epochs."""
        self.size = size
        self.episodes = episodes
        self.best_return = best_return
        self.kept: deque[Episode] = deque(maxlen=size)
        self._sum = 0.0
        self._until_exact = size

    def add(self, episode: Episode) -> None:
        """Counts a finished episode, unless a figure is impossible (NaN for example)."""
        usable = abs(episode.episode_return) <= LARGEST_FIGURE and 0.0 <= episode.seconds <= LARGEST_FIGURE
        if not usable or episode.length < 0:
            return
        self.episodes += 1
        self._sum += episode.episode_return - (self.kept[0].episode_return if self.full else 0.0)
        self.kept.append(episode)
        self._until_exact -= 1
        if self._until_exact == 0:  # once per window's length, so that rounding does not add up over days
            self._sum = math.fsum(one.episode_return for one in self.kept)
            self._until_exact = self.size
        if self.full and (self.best_return is None or self._sum / self.size > self.best_return):
            self.best_return = self._sum / self.size

    @property
    def full(self) -> bool:
        return len(self.kept) == self.size

    @property
    def mean_return(self) -> float | None:
        """Undiscounted; as the other means, None before the first episode."""
        return self._sum / len(self.kept) if self.kept else None

    @property
    def mean_length(self) -> float | None:
        """In agent steps."""
        return math.fsum(one.length for one in self.kept) / len(self.kept) if self.kept else None

    @property
    def mean_seconds(self) -> float | None:
        """Without any waiting between steps: see `Episode.seconds`."""
        return math.fsum(one.seconds for one in self.kept) / len(self.kept) if self.kept else None


class LagMeter:
    """Mean and 95th percentile (the nearest rank) of the lag of gradients; both 0 before the first."""

    def __init__(self, window: int = 1024) -> None:
        self._recent: deque[int] = deque(maxlen=window)
        self._sum = 0
        self._histogram = [0] * (LARGEST_LAG + 1)

    def add(self, lag: int) -> None:
        self._recent.append(lag)
        self._sum += lag
        self._histogram[min(lag, LARGEST_LAG)] += 1

    def recent(self) -> tuple[float, float]:
        """Of the last `window` gradients."""
        if not self._recent:
            return 0.0, 0.0
        lags = list(self._recent)
        return sum(lags) / len(lags), float(sorted(lags)[_rank95(len(lags)) - 1])

    def overall(self) -> tuple[float, float]:
        """Of all; in the percentile LARGEST_LAG stands for every lag from there on."""
        counts = np.cumsum(self._histogram)
        total = int(counts[-1])
        return self._sum / max(1, total), float(np.searchsorted(counts, _rank95(total)))


def _rank95(count: int) -> int:
    """Which of `count` ordered values is the 95th percentile, from 1."""
    return -(-95 * count // 100)


class Smoothed:
    """Exponential means of named figures, the losses for example; the first of a name counts in full."""

    def __init__(self, weight: float = 0.02) -> None:
        """`weight` of a new figure, 0 to 1: 0.02 remembers about the last 50."""
        self._weight = weight
        self.values: dict[str, float] = {}

    def add(self, figures: Mapping[str, float]) -> None:
        """One gradient's statistics, each finite."""
        for name, value in figures.items():
            before = self.values.get(name, value)
            self.values[name] = before + self._weight * (value - before)
