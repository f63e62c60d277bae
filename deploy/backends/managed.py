"""Actors that another manager keeps (systemd, Slurm): they are its, and this only asks for them and looks at them."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from deploy.backends.base import Backend, Condition, Ended, Found
from deploy.backends.client import Client, ClientError
from deploy.backends.worker import Pause, Worker

_LAST_SECONDS = 5.0
"""For what is still to be asked of the manager when the launcher ends."""


@dataclass(frozen=True)
class Seen:
    """What a look at the manager showed, of the slots it was asked for."""

    alive: frozenset[int]
    starting: frozenset[int] = frozenset()
    """Of those alive, not at work yet."""
    note: str = ""
    """What the operator should know."""


class ManagedBackend(Backend):
    """Looks, then asks, on a thread of its own.

    Nothing is asked for before a look has shown that it is not there already: an answer that got lost, or a launcher
    that was restarted, never doubles an actor. A request that fails is made again, later each time, and said as
    trouble: it is no actor's failure. Killing what does not leave is left to the manager.
    """

    outlives = True

    def __init__(self, interval: float, client: Client | None = None) -> None:
        """`interval`: seconds between two looks."""
        self.client = client or Client()
        self._interval = interval
        self._worker = Worker(self._turn)
        self._pause = Pause()
        self._lock = threading.Lock()
        self._dirty = False
        self._asked: set[int] = set()
        """To be started."""
        self._begun: set[int] = set()
        """Started or found, and there as far as is known."""
        self._unwanted: set[int] = set()
        self._cancelled: set[int] = set()
        """Of the unwanted, those that the manager was told to stop."""
        self._news: list[Ended | Found] = []
        self._condition = Condition(ready=frozenset(), settled=False)
        self._request_trouble = ""

    @abstractmethod
    def look(self) -> Seen:
        """Which slots' actors the manager has; raises ClientError when it cannot be told."""

    @abstractmethod
    def begin(self, slots: Sequence[int]) -> None:
        """Asks the manager for actors in these slots; raises ClientError."""

    @abstractmethod
    def cancel(self, slots: Sequence[int]) -> None:
        """Asks the manager to end those; raises ClientError."""

    @abstractmethod
    def autopsy(self, slot: int) -> Ended:
        """How the actor that is gone since the last look ended."""

    def start(self, slot: int) -> None:
        """Asked for with the next turn, together with all others since the last."""
        with self._lock:
            self._asked.add(slot)
            self._dirty = True

    def stop(self, slot: int, kill: bool = False) -> None:  # noqa: ARG002
        """Asked for likewise."""
        with self._lock:
            if slot in self._asked or slot in self._begun:
                self._unwanted.add(slot)
                self._dirty = True

    def poll(self) -> list[Ended | Found]:
        """What the last turns showed; begins the next if there is something to ask for."""
        self._worker.start()
        with self._lock:
            news, self._news = self._news, []
            dirty, self._dirty = self._dirty, False
        if dirty:
            self._worker.wake()
        return news

    @property
    def running(self) -> set[int]:
        """Slots whose end `poll` has not told yet."""
        with self._lock:
            return self._asked | self._begun | {event.slot for event in self._news if isinstance(event, Ended)}

    @property
    def condition(self) -> Condition:
        """As of the last turn; what has been asked for since is starting too."""
        with self._lock:
            now = self._condition
            return Condition(now.trouble, now.starting & self._begun | self._asked, now.ready, now.settled)

    def close(self) -> None:
        """Asks for what is still to be asked; the actors stay."""
        self._worker.close(_LAST_SECONDS, self.client.abort)

    def _turn(self) -> float:
        with self._lock:
            begun = set(self._begun)
        try:
            seen = self.look()
        except ClientError as error:
            self._pause.failed()
            with self._lock:
                self._condition = Condition(str(error), self._condition.starting, ready=frozenset())
            return self._pause.left
        ends = [self.autopsy(slot) for slot in sorted(begun - seen.alive)]
        with self._lock:
            self._take_note(seen, ends)
            starts = sorted(self._asked)
            stops = sorted((self._unwanted & self._begun) - self._cancelled)
        self._request(starts, stops)
        with self._lock:
            trouble = "; ".join(filter(None, (self._request_trouble, seen.note)))
            self._condition = Condition(trouble, seen.starting)
            return min(self._interval, self._pause.left) if self._asked else self._interval

    def _take_note(self, seen: Seen, ends: Sequence[Ended]) -> None:
        gone = {end.slot for end in ends}
        given_up = (self._asked & self._unwanted) - seen.alive
        found = seen.alive - self._asked - self._begun
        self._news += [*ends, *(Ended(slot, 0) for slot in sorted(given_up)), *(Found(slot) for slot in sorted(found))]
        self._asked -= seen.alive | given_up
        self._begun = (self._begun - gone) | seen.alive
        self._unwanted -= gone | given_up
        self._cancelled -= gone | given_up

    def _request(self, starts: Sequence[int], stops: Sequence[int]) -> None:
        due = self._pause.left == 0
        troubles = [] if due else [self._request_trouble]
        try:
            if stops:
                self.cancel(stops)
                with self._lock:
                    self._cancelled.update(stops)
        except ClientError as error:
            troubles.append(str(error))
        try:
            if starts and due:
                self.begin(starts)
                with self._lock:
                    self._asked.difference_update(starts)
                    self._begun.update(starts)
                self._pause.worked()
            elif due:
                self._pause.worked()
        except ClientError as error:
            self._pause.failed()
            troubles.append(str(error))
        self._request_trouble = "; ".join(dict.fromkeys(filter(None, troubles)))
