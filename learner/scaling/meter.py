"""Rates, lag and busy time of the fleet as it is, over the same seconds; begun anew when an actor comes or goes.

Figures of a larger fleet read as those of a smaller one were what made scaling by load run away.
"""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

MARKS = 20
"""Looks over which is measured at most."""
SHORTEST = 1.5
"""Time between two looks, times this, is the least that is measured."""
SETTLING = 2
"""Messages of each actor, on average, that are let pass after a change: they were under way, or its first."""
ENOUGH = 2
"""Messages of each actor, on average, in the least that is measured."""
MOST_MARKS = 600


class Totals(NamedTuple):
    """Since the run's epoch began."""

    now: float
    worked: float
    """Seconds that the learner was at work."""
    frames: int
    steps: int
    """Of the optimizer."""
    messages: int = 0
    rollouts: int = 0
    lag: int = 0
    """Summed over the rollouts."""


@dataclass(frozen=True)
class Window:
    """What was measured; `seconds` is 0 where that is too little."""

    seconds: float = 0.0
    busy: float = 0.0
    lag_mean: float = 0.0
    rollouts_per_second: float = 0.0
    steps_per_second: float = 0.0
    frames_per_second: tuple[float, ...] = ()


class FleetMeter:
    """`received` and `arrived` are called by the hot path, `look` before each decision."""

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
        """An actor sent its first message."""
        self._begin(self._actors + 1)

    def received(self, lag: int, rollouts: int) -> bool:
        """A message of so many rollouts came; whether the fleet is settled now, and `mark` is to be called."""
        self._messages += 1
        self._rollouts += rollouts
        self._lag += lag * rollouts
        return self._messages == self._settled_at

    def mark(self, totals: Totals) -> None:
        """From now on is measured, or goes on to be."""
        self._marks.append(totals._replace(messages=self._messages, rollouts=self._rollouts, lag=self._lag))

    def look(self, totals: Totals, actors: int) -> Window:
        """What was measured until now of these `actors`, which have all sent a message."""
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
        """Of each part that is about an interval long: the first one, from the settling on, may be much shorter."""
        parts = [(after.now - before.now, after.frames - before.frames) for before, after in pairwise(self._marks)]
        return tuple(frames / seconds for seconds, frames in parts if seconds > 0.5 * self._interval)
