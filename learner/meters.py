"""Running measurements for the learner's hot path: constant time per event, bounded memory, and no clock.

`now` is always passed in: seconds of a monotonic clock.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from common.settings.exchanges import staleness_policy
from common.settings.sections import Settings

WINDOW_SECONDS = 5.0
"""Window of the rates that are shown to people."""
SYNCHRONOUS_SECONDS = 30.0
"""The same for a run whose steps wait for all actors: its contributions come together, seconds apart."""
BUCKETS = 20
"""Slices of a sliding window. The oldest is forgotten as a whole, so a rate is off by at most 1/20 of the window."""
LARGEST_FIGURE = 1e30
"""Figures come from other hosts. A larger one counts as damaged: in a sum, it would drown all others."""
SEVERAL = 50
OUTLYING = 5.0
LEAST_SPREAD = 1e-6
"""A figure that has always been 0, such as ppo's clip_fraction at first, could otherwise never become another one."""
LARGEST_LAG = 10_000
"""Larger lags count as this one in the percentile over all gradients."""


def rate_seconds(settings: Settings) -> float:
    """Return the window of the rates of a run that are shown to people."""
    return SYNCHRONOUS_SECONDS if staleness_policy(settings) == "synchronous" else WINDOW_SECONDS


class Rate:
    """Amount per second over the last `window` seconds; until the window is full, over the time since the start."""

    def __init__(self, window: float, now: float) -> None:
        self._width = window / BUCKETS
        self._started = now
        self._slots = [0.0] * (BUCKETS + 1)
        self._slot = math.floor(now / self._width)
        self._index = self._slot % (BUCKETS + 1)
        self._until = (self._slot + 1) * self._width
        """When the newest slot ends."""

    def add(self, now: float, amount: float = 1.0) -> None:
        if now >= self._until:
            self._advance(math.floor(now / self._width))
        self._slots[self._index] += amount

    def value(self, now: float) -> float:
        self._advance(math.floor(now / self._width))
        since = max(self._started, (self._slot - BUCKETS) * self._width)
        return sum(self._slots) / max(now - since, self._width)

    def _advance(self, newest: int) -> None:
        for slot in range(max(self._slot + 1, newest - BUCKETS), newest + 1):
            self._slots[slot % len(self._slots)] = 0.0
        self._slot = max(self._slot, newest)
        self._index = self._slot % len(self._slots)
        self._until = (self._slot + 1) * self._width


class Busy:
    """Fraction of time spent at work: over the last `window` seconds, and since the start."""

    def __init__(self, window: float, now: float) -> None:
        self._recent = Rate(window, now)
        self._started = now
        self.worked = 0.0
        """Seconds of work since the start."""

    def working(self, now: float, seconds: float) -> None:
        """Count `seconds` of work that ended at `now`."""
        self._recent.add(now, seconds)
        self.worked += seconds

    def recent(self, now: float) -> float:
        return min(1.0, self._recent.value(now))

    def overall(self, now: float) -> float:
        elapsed = now - self._started
        return min(1.0, self.worked / elapsed) if elapsed > 0.0 else 0.0


class LagMeter:
    """Mean and 95th percentile (nearest rank) of the lag of gradients; both are 0 before the first gradient."""

    def __init__(self, window: int = 1024) -> None:
        self._recent: deque[int] = deque(maxlen=window)
        self._sum = 0
        self._histogram = [0] * (LARGEST_LAG + 1)

    def add(self, lag: int) -> None:
        self._recent.append(lag)
        self._sum += lag
        self._histogram[min(lag, LARGEST_LAG)] += 1

    def recent(self) -> tuple[float, float]:
        """Return mean and percentile of the last `window` gradients."""
        if not self._recent:
            return 0.0, 0.0
        lags = list(self._recent)
        return sum(lags) / len(lags), float(sorted(lags)[_rank95(len(lags)) - 1])

    def overall(self) -> tuple[float, float]:
        """Return mean and percentile of all gradients; in the percentile, larger lags count as LARGEST_LAG."""
        counts = np.cumsum(self._histogram)
        total = int(counts[-1])
        return self._sum / max(1, total), float(np.searchsorted(counts, _rank95(total)))


def _rank95(count: int) -> int:
    """Return the rank, from 1, of the 95th percentile among `count` ordered values."""
    return -(-95 * count // 100)


@dataclass(slots=True)
class _Spread:
    """The spread of the figures of one name."""

    count: int = 1
    """Number of figures so far, at most SEVERAL."""
    mean: float = 0.0
    """Exponential mean of the absolute deviation from the mean."""


class Smoothed:
    """Exponential means of named figures, for example the losses; the first figure of a name counts in full.

    Figures come from other hosts. Once SEVERAL of a name are known, each further one is clipped to within OUTLYING mean
    deviations of the mean. With OUTLYING = 5, one liar among ten actors widens the deviation about twofold; with 20, it
    would widen it without end.
    """

    def __init__(self, weight: float = 0.02) -> None:
        """`weight`: weight of a new figure, 0 to 1; 0.02 remembers about the last 50."""
        self._weight = weight
        self.values: dict[str, float] = {}
        self._spreads: dict[str, _Spread] = {}

    def add(self, figures: Mapping[str, float]) -> None:
        """Add the statistics of one gradient, each finite."""
        values = self.values
        for name, value in figures.items():
            spread = self._spreads.get(name)
            if spread is None:
                values[name] = value
                self._spreads[name] = _Spread()
                continue
            before = values[name]
            apart = value - before
            if spread.count == SEVERAL:
                # No max() and min(): they take longer than all else here, and this runs seven times for each gradient.
                least = LEAST_SPREAD + (before * 1e-3 if before > 0.0 else before * -1e-3)
                most = OUTLYING * (spread.mean if spread.mean > least else least)
                if apart > most:
                    apart = most
                elif apart < -most:
                    apart = -most
                weight = self._weight
            else:
                spread.count += 1
                weight = max(self._weight, 1 / spread.count)
            values[name] = before + self._weight * apart
            spread.mean += weight * (abs(apart) - spread.mean)
