"""Measures rates, lag and busy time of the fleet over the same seconds; begins anew when an actor comes or goes.

Scaling by load once ran away because figures of a larger fleet were taken for those of a smaller one.
"""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

MARKS = 20
"""Length of the measured window, in looks, unless it needs more to have ENOUGH messages."""
SHORTEST = 1.5
"""Shortest measured window, as a multiple of the interval between two looks."""
SETTLING = 2
"""Messages per actor, on average, that are ignored after a change: they were under way, or an actor's first."""
ENOUGH = 2
"""Messages per actor, on average, that a window must have."""
MOST_MARKS = 600
"""Most looks that are kept, even if the window then has fewer than ENOUGH messages."""


class Totals(NamedTuple):
    """Totals at one time, of which only differences are used."""

    now: float
    worked: float
    """Seconds for which the learner was at work."""
    frames: int
    steps: int
    """Optimizer steps."""
    messages: int = 0
    rollouts: int = 0
    lag: int = 0
    """Lag summed over the rollouts."""


@dataclass(frozen=True)
class Window:
    """The measured window; `seconds` is 0 if it is too short."""

    seconds: float = 0.0
    busy: float = 0.0
    lag_mean: float = 0.0
    rollouts_per_second: float = 0.0
    steps_per_second: float = 0.0
    frames_per_second: tuple[float, ...] = ()


class FleetMeter:
    """Measures the fleet: the hot path calls `received` and `arrived`; `look` is called before each decision."""

    def __init__(self, interval: float) -> None:
        """`interval`: seconds between two looks."""
        self._interval = interval
        self._actors = 0
        self._messages = 0
        self._rollouts = 0
        self._lag = 0
        self._settled_at = 0
        self._marks: deque[Totals] = deque()

    def arrived(self) -> None:
        """Note that an actor sent its first message; the measurement begins anew."""
        self._begin(self._actors + 1)

    def received(self, lag: int, rollouts: int) -> bool:
        """Count a message of `rollouts`; return whether the fleet has just settled, so that `mark` is to be called."""
        self._messages += 1
        self._rollouts += rollouts
        self._lag += lag * rollouts
        return self._messages == self._settled_at

    def mark(self, totals: Totals) -> None:
        """Begin to measure from here, or add a look to the measurement."""
        self._marks.append(totals._replace(messages=self._messages, rollouts=self._rollouts, lag=self._lag))

    def look(self, totals: Totals, actors: int) -> Window:
        """Return the measurement so far of these `actors`, which have all sent a message."""
        if actors != self._actors:
            self._begin(actors)
        if not self._marks:
            return Window()
        self.mark(totals)
        while len(self._marks) > MARKS + 1 and (self._enough(self._marks[1]) or len(self._marks) > MOST_MARKS):
            self._marks.popleft()
        first, last = self._marks[0], self._marks[-1]
        seconds = last.now - first.now
        if seconds < SHORTEST * self._interval or not self._enough(first):
            return Window()
        return Window(
            seconds=seconds,
            busy=min(1.0, (last.worked - first.worked) / seconds),
            lag_mean=(last.lag - first.lag) / (last.rollouts - first.rollouts),
            rollouts_per_second=(last.rollouts - first.rollouts) / seconds,
            steps_per_second=(last.steps - first.steps) / seconds,
            frames_per_second=self._frames_per_second(),
        )

    def _begin(self, actors: int) -> None:
        self._actors = actors
        self._marks.clear()
        self._settled_at = self._messages + SETTLING * max(1, actors)

    def _enough(self, since: Totals) -> bool:
        return self._messages - since.messages >= ENOUGH * max(1, self._actors)

    def _frames_per_second(self) -> tuple[float, ...]:
        """Return those of each part of about an interval; the first part, begun on settling, may be too short."""
        parts = [(after.now - before.now, after.frames - before.frames) for before, after in pairwise(self._marks)]
        return tuple(frames / seconds for seconds, frames in parts if seconds > 0.5 * self._interval)
