"""Which actors to start and to stop, from three sets of slots.

    plan       an actor is wanted here
    requested  a start was handed to the backend and has not been observed yet
    observed   the last observation shows an actor here
    silent     of those observed: it hangs, and another is to take its place

A slot in `plan` alone is started, one in `observed` alone is stopped. Requests follow only upon an observation of their
place, so an actor is never started twice. An actor that ended by itself is started again after 0.5, 1, 2, 4, ... 30 s.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deploy.backends.background_loop import backoff
from deploy.backends.base import Observation, Requests

STEADY_SECONDS = 60.0
"""An actor that ran so long proves that actors can run here: on a busy machine half of it goes into loading torch."""
GRACE_SECONDS = 3.0
"""From SIGTERM to SIGKILL."""
KILL_AGAIN_SECONDS = 10.0
"""A request may have failed."""
GONE_SECONDS = 600.0
"""A place that cannot be observed for so long counts as empty; actors that it has after all are found again."""


class Slot(NamedTuple):
    """Room for one actor. Slots sort by turns over the places, so that few actors run on many hosts."""

    number: int
    place: int = 0


@dataclass
class _Times:
    requested: float = -math.inf
    """When its start was requested; of one that was found nobody knows."""
    started: float = -math.inf
    due: float = -math.inf
    """Not started before."""
    setbacks: int = 0
    """Ends and failed requests since an actor last ran steadily."""
    stop_at: float = math.inf
    kill_at: float = math.inf
    asked: bool = False


class Reconciler:
    def __init__(self, slots: Sequence[int]) -> None:
        """`slots` of each place."""
        self.slots = sorted(Slot(number, place) for place, count in enumerate(slots) for number in range(count))
        self.plan: set[Slot] = set()
        self.requested: set[Slot] = set()
        self.observed: set[Slot] = set()
        self.starting: set[Slot] = set()
        """Of those observed, the ones whose actor does not work yet."""
        self.silent: set[Slot] = set()
        self.ready: set[int] = set()
        """Places that the last attempt could observe."""
        self._times = {slot: _Times() for slot in self.slots}
        self._seen_at = dict.fromkeys(range(len(slots)), -math.inf)
        self._awaited: set[int] = set()
        """Places whose next observation is on its way."""

    @property
    def taken(self) -> set[Slot]:
        return self.requested | self.observed

    def next_free(self, slots: Collection[Slot]) -> Slot:
        """Of these slots the free one that is planned already, or may be started first."""
        free = set(slots) - self.taken
        return min(free, key=lambda slot: (slot not in self.plan, self._times[slot].due, slot))

    def age(self, now: float, slot: Slot) -> float:
        return now - self._times[slot].started

    def set_plan(self, now: float, wanted: int, usable: Collection[Slot]) -> None:
        """Plans `wanted` actors, new ones only in `usable` slots."""
        self.plan &= self.taken | set(usable)
        missing = wanted - len(self.plan)
        if missing < 0:
            # What does not run costs nothing to give up; of the others the newest has learnt least.
            first = sorted(sorted(self.plan, reverse=True), key=lambda slot: (slot in self.taken, self.age(now, slot)))
            for slot in first[:-missing]:
                self.dismiss(now, slot)
        if missing > 0:
            free = sorted(set(usable) - self.plan - self.taken, key=lambda slot: (self._times[slot].due, slot))
            self.plan.update(free[:missing])

    def dismiss(self, at: float, slot: Slot) -> None:
        """Plans no actor here: it is asked to leave at `at`, or earlier if it was to be asked earlier."""
        self.plan.discard(slot)
        times = self._times[slot]
        times.stop_at = min(times.stop_at, at)
        times.kill_at = min(times.kill_at, at + GRACE_SECONDS)

    def replace(self, now: float, slot: Slot, silent_for: float) -> bool:
        """Ends the actor here, silent for so many seconds; False: it began since, or is on its way in or out."""
        times = self._times[slot]
        if slot not in self.observed & self.plan - self.silent - self.starting or now - times.requested <= silent_for:
            return False
        self.silent.add(slot)
        times.stop_at, times.kill_at = now, now + GRACE_SECONDS
        return True

    def observe(self, now: float, place: int, seen: Observation, ended: Collection[int] = ()) -> set[Slot]:
        """Takes an observation that follows all requests to its place; returns the slots found without a request."""
        alive = {Slot(number, place) for number in seen.alive}
        found = alive - self.taken
        for slot in found:
            self._begin(now, slot)
            self._times[slot].requested = -math.inf
        starting = {Slot(number, place) for number in seen.starting}
        for slot in starting:
            self._times[slot].started = now
        self.silent -= _of(self.silent, place) - alive
        gone = {Slot(number, place) for number in ended} | _of(self.requested, place) - alive
        for slot in gone & self.plan:
            self._set_back(now, slot)
        self._forget(place)
        self.observed |= alive
        self.starting |= starting
        self.ready.add(place)
        self._awaited.discard(place)
        self._seen_at[place] = now
        return found

    def lose(self, now: float, place: int) -> None:
        """The place could not be observed: nothing is started there until it can."""
        self.ready.discard(place)
        self._awaited.discard(place)
        if now - self._seen_at[place] >= GONE_SECONDS:
            self._forget(place)
            self.silent -= _of(self.silent, place)

    def _forget(self, place: int) -> None:
        for slots in (self.requested, self.observed, self.starting):
            slots -= _of(slots, place)

    def _keeps(self, slot: Slot) -> bool:
        """Whether the actor that is here, if there is one, is the one wanted."""
        return slot in self.plan and slot not in self.silent

    def requests(self, now: float, place: int) -> Requests:
        start, stop, kill = set(), set(), set()
        for slot in _of(self.slots, place):
            times = self._times[slot]
            if self._next(slot) > now:
                continue
            if self._keeps(slot):
                self._begin(now, slot)
                times.requested = now
                self.requested.add(slot)
                start.add(slot.number)
                continue
            times.asked = True
            if now >= times.kill_at:
                times.kill_at = now + KILL_AGAIN_SECONDS
                kill.add(slot.number)
            else:
                stop.add(slot.number)
        return Requests(frozenset(start), frozenset(stop), frozenset(kill), len(_of(self.plan, place)))

    @property
    def deadline(self) -> float:
        """When `due` next returns a place."""
        places = self.ready - self._awaited
        return min((self._next(slot) for slot in self.slots if slot.place in places), default=math.inf)

    def due(self, now: float) -> set[int]:
        """Places to observe now, since there is something to request there; each is returned once."""
        places = self.ready - self._awaited
        due = {slot.place for slot in self.slots if slot.place in places and self._next(slot) <= now}
        self._awaited |= due
        return due

    def _next(self, slot: Slot) -> float:
        times = self._times[slot]
        if self._keeps(slot):
            return math.inf if slot in self.taken else times.due
        if slot not in self.observed:
            return math.inf
        return times.kill_at if times.asked else min(times.stop_at, times.kill_at)

    def _set_back(self, now: float, slot: Slot) -> None:
        times = self._times[slot]
        if now - times.started >= STEADY_SECONDS:
            times.setbacks = 0
        times.setbacks += 1
        times.due = now + backoff(times.setbacks, first=0.5)

    def _begin(self, now: float, slot: Slot) -> None:
        times = self._times[slot]
        times.started = now
        times.stop_at = times.kill_at = math.inf
        times.asked = False


def _of(slots: Collection[Slot], place: int) -> set[Slot]:
    return {slot for slot in slots if slot.place == place}
