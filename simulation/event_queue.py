"""The virtual clock: it jumps from each event to the next.

Events of the same time happen in the order in which they were planned, so that a run depends on its events alone.
"""

import heapq
import math
from collections.abc import Callable

Action = Callable[[], object]


class Event:
    """A planned action, until it happens or is cancelled."""

    __slots__ = ("action", "time")

    def __init__(self, time: float, action: Action) -> None:
        self.time = time
        self.action: Action | None = action

    def cancel(self) -> None:
        self.action = None


class EventQueue:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        """Virtual time in seconds."""
        self.happened = 0
        """Number of events so far."""
        self._planned: list[tuple[float, int, Event]] = []
        self._sequence = 0

    def at(self, time: float, action: Action) -> Event:
        """Plans an event; if `time` has passed, it happens now."""
        event = Event(time if time > self.now else self.now, action)
        heapq.heappush(self._planned, (event.time, self._sequence, event))
        self._sequence += 1
        return event

    def after(self, seconds: float, action: Action) -> Event:
        return self.at(self.now + seconds, action)

    @property
    def deadline(self) -> float:
        """Time of the next event; infinite: nothing is planned."""
        while self._planned and self._planned[0][2].action is None:
            heapq.heappop(self._planned)
        return self._planned[0][0] if self._planned else math.inf

    def step(self, until: float = math.inf) -> bool:
        """Lets the next event happen; False: there is none up to the time `until`."""
        planned = self._planned
        while planned and planned[0][0] <= until:
            time, _, event = heapq.heappop(planned)
            action = event.action
            if action is not None:
                event.action = None
                self.now = time
                self.happened += 1
                action()
                return True
        return False

    def run(self, until: float) -> None:
        """Lets all events up to the time `until` happen, and sets the clock to it."""
        while self.step(until):
            pass
        self.now = max(self.now, until)
