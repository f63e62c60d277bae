"""Which actors to start and to stop, from these sets of slots.

    plan       an actor is wanted here
    requested  a start was handed to the backend and has not been observed yet
    observed   the last observation shows an actor here
    silent     the observed actor here hangs, and another is to take its place

An actor is started in a slot that is in `plan` alone, and stopped in a slot that is in `observed` alone. Requests to a
place are made only after a new observation of it, so an actor is never started twice. An actor that ended by itself is
started again after 0.5, 1, 2, 4, ... 30 s.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deploy.backends.background_loop import backoff
from deploy.backends.base import Observation, Requests

STEADY_SECONDS = 60.0
"""An actor that has run for so long proves that actors can run here. Loading torch takes half of it on a busy host."""
GRACE_SECONDS = 3.0
"""From SIGTERM to SIGKILL."""
KILL_AGAIN_SECONDS = 10.0
"""Time after which an actor that is still there is killed again, since the request may have failed."""
LOOK_AGAIN_SECONDS = 2.0
"""In the end, from a look at a place that failed to the next: its own pause may be half a minute."""
GONE_SECONDS = 600.0
"""A place that could not be observed for so long counts as empty; if it has actors after all, they are found again."""


class Slot(NamedTuple):
    """Room for one actor. Slots sort by number before place, so that a few actors are spread over many hosts."""

    number: int
    place: int = 0


@dataclass
class _Times:
    requested: float = -math.inf
    """When its start was requested; -inf for an actor that was found, where it is not known."""
    started: float = -math.inf
    due: float = -math.inf
    """Earliest time of its next start."""
    setbacks: int = 0
    """Ends and failed requests since an actor last ran steadily."""
    stop_at: float = math.inf
    kill_at: float = math.inf
    asked: bool = False
    told: bool = False
    """Whether the backend has carried out a request to end its actor."""


class Reconciler:
    def __init__(self, slots: Sequence[int]) -> None:
        """`slots`: the number of slots of each place."""
        self.slots = sorted(Slot(number, place) for place, count in enumerate(slots) for number in range(count))
        self.plan: set[Slot] = set()
        self.requested: set[Slot] = set()
        self.observed: set[Slot] = set()
        self.starting: set[Slot] = set()
        """Observed slots whose actor is not at work yet."""
        self.silent: set[Slot] = set()
        self.ready: set[int] = set()
        """Places whose last observation succeeded."""
        self._times = {slot: _Times() for slot in self.slots}
        self._seen_at = dict.fromkeys(range(len(slots)), -math.inf)
        self._awaited = set(self._seen_at)
        """Places whose next observation is on its way."""
        self._unsure = set(self._seen_at)
        """Places with actors that the last observation did not show, or perhaps: it failed, or said so itself."""
        self.doubtful: set[int] = set()
        """In the end, places that may have actors of which nothing is known."""
        self._failed_at = dict.fromkeys(self._seen_at, -math.inf)
        """When an observation of the place, or a request to it, last failed."""
        self._handed: dict[int, set[Slot]] = {}
        """By place, slots whose actor the backend was last requested to end, until its report."""

    @property
    def taken(self) -> set[Slot]:
        return self.requested | self.observed

    def next_free(self, slots: Collection[Slot]) -> Slot:
        """Returns the free one of `slots` that is planned already, or else the one that may be started first."""
        free = set(slots) - self.taken
        return min(free, key=lambda slot: (slot not in self.plan, self._times[slot].due, slot))

    def age(self, now: float, slot: Slot) -> float:
        return now - self._times[slot].started

    def set_plan(self, now: float, wanted: int, usable: Collection[Slot]) -> None:
        """Plans `wanted` actors, new ones only in `usable` slots."""
        self.plan &= self.taken | set(usable)
        missing = wanted - len(self.plan)
        if missing < 0:
            for slot in self._first_to_go(now)[:-missing]:
                self.dismiss(now, slot)
        if missing > 0:
            free = sorted(set(usable) - self.plan - self.taken, key=lambda slot: (self._times[slot].due, slot))
            self.plan.update(free[:missing])

    def _first_to_go(self, now: float) -> list[Slot]:
        """The plan in the order in which slots are given up.

        To give up a slot where no actor runs costs nothing. Of the actors that run, the newest has learnt least; those
        that were found are older than all that this launcher has started.
        """

        def rank(slot: Slot) -> tuple[bool, bool, float]:
            return slot in self.taken, self._times[slot].requested == -math.inf, self.age(now, slot)

        return sorted(sorted(self.plan, reverse=True), key=rank)

    def dismiss(self, at: float, slot: Slot) -> None:
        """Takes the slot out of the plan: its actor is asked to leave at `at`, or earlier if so decided before."""
        self.plan.discard(slot)
        times = self._times[slot]
        times.stop_at = min(times.stop_at, at)
        times.kill_at = min(times.kill_at, at + GRACE_SECONDS)

    def end(self, at: float, first: bool) -> None:
        """Dismisses all actors at `at`; `first`: the end begins now, and it may begin again, earlier.

        A place that cannot be seen now must be, once. One that is lost later holds no more than is known: nothing is
        started any more.
        """
        for slot in self.slots:
            self.dismiss(at, slot)
        if first:
            self.doubtful = set(self._unsure)

    def adopt(self) -> None:
        """Plans all actors that are there, also those that were to end: another launcher has decided since."""
        self.plan = self.taken
        self.silent.clear()
        for slot in self.plan:
            times = self._times[slot]
            times.stop_at = times.kill_at = math.inf
            times.asked = times.told = False

    def replace(self, now: float, slot: Slot, silent_for: float) -> bool:
        """Ends the actor in the slot, silent for `silent_for` seconds, so that another takes its place.

        Returns False if it is left alone: it began during these seconds, or is starting or leaving.
        """
        times = self._times[slot]
        if slot not in self.observed & self.plan - self.silent - self.starting or now - times.requested <= silent_for:
            return False
        self.silent.add(slot)
        times.stop_at, times.kill_at = now, now + GRACE_SECONDS
        return True

    def observe(self, now: float, place: int, seen: Observation, ended: Collection[int] = ()) -> set[Slot]:
        """Takes an observation made after all requests to the place; returns the slots with an actor not requested."""
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
        self._unsure.discard(place)
        if seen.unsure:
            self._unsure.add(place)
        else:
            self.doubtful.discard(place)
        return found

    def lose(self, now: float, place: int) -> None:
        """Notes that the place could not be observed: nothing is started there until it can be."""
        self.ready.discard(place)
        self._awaited.discard(place)
        self._unsure.add(place)
        self._failed_at[place] = now
        if now - self._seen_at[place] >= GONE_SECONDS:
            self._forget(place)
            self.silent -= _of(self.silent, place)

    def carried_out(self, now: float, place: int, undone: bool) -> None:
        """Takes what a report says about the requests to the place before it; `undone`: one of them failed."""
        if undone:
            self._failed_at[place] = now
        for slot in self._handed.pop(place, ()):
            self._times[slot].told |= not undone

    @property
    def unasked(self) -> set[Slot]:
        """Slots with actors that no request to end has reached."""
        return {slot for slot in self.taken if not self._times[slot].told}

    def _forget(self, place: int) -> None:
        for slots in (self.requested, self.observed, self.starting):
            slots -= _of(slots, place)

    def _keeps(self, slot: Slot) -> bool:
        """Whether an actor is wanted here, and the one that is here, if there is one, may stay."""
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
            if times.asked:
                times.kill_at = now + KILL_AGAIN_SECONDS
                kill.add(slot.number)
            else:  # also where a slow observation let the time for a kill come first
                times.asked = True
                times.kill_at = max(times.kill_at, now + GRACE_SECONDS)
                stop.add(slot.number)
        self._handed[place] = {Slot(number, place) for number in stop | kill}
        return Requests(frozenset(start), frozenset(stop), frozenset(kill), len(_of(self.plan, place)))

    @property
    def deadline(self) -> float:
        """When `due` next returns a place."""
        places = self.ready - self._awaited
        return min((self._next(slot) for slot in self.slots if slot.place in places), default=math.inf)

    def due(self, now: float, ending: bool = False) -> set[int]:
        """Returns the places to observe now because there is something to request there; each is returned once.

        `ending`: all actors are to end. Then a place that could not be observed is tried again soon, since an actor
        there can be asked only after an observation; and so is one that may have actors of which nothing is known.
        """
        places = self.ready - self._awaited
        due = {slot.place for slot in self.slots if slot.place in places and self._next(slot) <= now}
        if ending:
            lost = ({slot.place for slot in self.unasked} - self.ready) | self.doubtful
            due |= {place for place in lost - self._awaited if now >= self._failed_at[place] + LOOK_AGAIN_SECONDS}
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
        times.asked = times.told = False


def _of(slots: Collection[Slot], place: int) -> set[Slot]:
    return {slot for slot in slots if slot.place == place}
