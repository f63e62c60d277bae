"""What a launcher knows of the actors on one host, from what it asked for and what the holder there says.

Pure: calls and messages in, messages out. A start that was not confirmed is asked for again after a reconnection; the
holder does nothing about it if it came through, so no actor is doubled. What was confirmed and is not there any more
has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from common.errors import EXIT_TRY_LATER
from deploy.backends.base import Ended, Found
from deploy.hold.messages import AnyLine, Gone, Holding, Start, Started, Stop

News = Ended | Found


class Site:
    """Slots here are numbered as on that host: 0, 1, ..."""

    def __init__(self, slots: int, name: Callable[[int], str]) -> None:
        """`name` of the actor in a slot."""
        self.connected = False
        """Whether the holder has said what runs."""
        self._slots = slots
        self._name = name
        self._asked: set[int] = set()
        """Start not confirmed."""
        self._held: set[int] = set()
        self._stops: dict[int, Stop] = {}
        """Asked for, and the end not seen."""

    @property
    def running(self) -> set[int]:
        """As far as is known."""
        return self._asked | self._held

    @property
    def asked(self) -> set[int]:
        """Those of them that the holder has not confirmed."""
        return set(self._asked)

    def start(self, slot: int) -> list[AnyLine]:
        """What to tell the holder."""
        self._asked.add(slot)
        return [Start(slot, self._name(slot))] if self.connected else []

    def stop(self, slot: int, kill: bool) -> list[AnyLine]:
        """Likewise; said again after a reconnection."""
        if slot not in self.running:
            return []
        self._stops[slot] = Stop(slot, kill)
        return [self._stops[slot]] if self.connected else []

    def handle(self, line: AnyLine) -> tuple[list[AnyLine], list[News]]:
        """What to tell the holder, and what is new."""
        match line:
            case Holding():
                return self._reconcile(set(line.running), line.gone)
            case Started(slot=slot) if slot in self._asked:
                self._asked.remove(slot)
                self._held.add(slot)
            case Gone() if line.slot in self.running:
                return [], [self._ended(line.slot, line.exit_code, line.last_words)]
            case _:
                pass
        return [], []

    def _reconcile(self, running: set[int], gone: Sequence[Gone]) -> tuple[list[AnyLine], list[News]]:
        self.connected = True
        how = {end.slot: end for end in gone}
        missing = Gone(-1, EXIT_TRY_LATER, "it was gone when the connection came back: was its host restarted?")
        news: list[News] = []
        for slot in sorted(self._held - running):
            end = how.get(slot, missing)
            news.append(self._ended(slot, end.exit_code, end.last_words))
        news += [Found(slot) for slot in sorted(running - self.running) if slot < self._slots]
        self._held = {slot for slot in running if slot < self._slots}
        self._asked -= running
        given_up = self._asked & self._stops.keys()
        news += [self._ended(slot, 0, "") for slot in sorted(given_up)]
        surplus = [Stop(slot) for slot in sorted(running) if slot >= self._slots]
        starts = [Start(slot, self._name(slot)) for slot in sorted(self._asked)]
        return [*surplus, *self._stops.values(), *starts], news

    def _ended(self, slot: int, exit_code: int, last_words: str) -> Ended:
        self._asked.discard(slot)
        self._held.discard(slot)
        self._stops.pop(slot, None)
        return Ended(slot, exit_code, last_words)

    def lost(self) -> None:
        """No connection any more; the actors play on."""
        self.connected = False

    def expired(self, why: str) -> list[News]:
        """No connection for longer than the holder's lease: what ran there has been ended by it."""
        return [self._ended(slot, EXIT_TRY_LATER, why) for slot in sorted(self.running)]
