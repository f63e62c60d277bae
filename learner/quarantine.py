"""Quarantine: peers that harm the run are kept out for a while, identified by what they cannot choose freely.

A process chooses its incarnation and, without keys, its host's name. So a quarantine applies to a name at a place. The
place is the key, or without keys the address that the connection comes from: ten actors on one machine are ten names at
one place. Once several names of a place are out, the whole place is, except for processes that have already proved
useful.

Each quarantine of a name is twice as long as the one before. A host that has been repaired comes back by itself.
"""

from dataclasses import dataclass

from common.run.status import QuarantineStatus
from learner.bounded_dict import BoundedDict

FIRST_SECONDS = 120.0
LONGEST_SECONDS = 4 * 3600.0
NAMES_OF_A_PLACE = 3
"""Number of names of a place that are out at the same time from which on the whole place is out."""
MOST = 1000
"""Most quarantines that are remembered at a time."""


@dataclass
class _Entry:
    seconds: float
    until: float
    why: str


class Quarantine:
    """Times are seconds of a monotonic clock. An entry is forgotten after four times its length since it ended."""

    def __init__(self) -> None:
        self._entries: BoundedDict[tuple[str, str], _Entry] = BoundedDict(MOST)
        """Quarantines by place and name, oldest first; an empty name stands for the whole place."""

    def add(self, now: float, place: str, name: str, why: str) -> float:
        """Quarantine the name, and its whole place if several of its names are out; return the seconds for the name."""
        self._forget(now)
        seconds = self._extend(now, (place, name), why)
        out = [key for key, entry in self._entries.items() if key[0] == place and key[1] and entry.until > now]
        if len(out) >= NAMES_OF_A_PLACE:
            names = ", ".join(name for _, name in out[-NAMES_OF_A_PLACE:])
            self._extend(now, (place, ""), f"{len(out)} actors of it are out, {names} among them")
        return seconds

    def reason(self, now: float, place: str, name: str, *, proven: bool) -> str:
        """Return why the name is out, and for how much longer; empty if it may join.

        `proven`: this process has sent useful contributions, so a quarantine of its whole place does not apply to it.
        """
        held = [self._entries.get((place, name)), None if proven else self._entries.get((place, ""))]
        last = max((entry for entry in held if entry is not None), key=lambda entry: entry.until, default=None)
        if last is None or last.until <= now:
            return ""
        return f"it is kept out for {last.until - now:.0f} s more: {last.why}"

    def whole_place(self, now: float, place: str) -> float:
        """Return the seconds for which the whole place remains out; 0: it is not."""
        entry = self._entries.get((place, ""))
        return 0.0 if entry is None else max(0.0, entry.until - now)

    def status(self, now: float) -> list[QuarantineStatus]:
        return [
            QuarantineStatus(name=name or f"all of {place}", place=place, why=entry.why, seconds_left=entry.until - now)
            for (place, name), entry in self._entries.items()
            if entry.until > now
        ]

    def _extend(self, now: float, key: tuple[str, str], why: str) -> float:
        before = self._entries.get(key)
        seconds = FIRST_SECONDS if before is None else min(2 * before.seconds, LONGEST_SECONDS)
        self._entries[key] = _Entry(seconds, now + seconds, why)
        return seconds

    def _forget(self, now: float) -> None:
        over = [key for key, entry in self._entries.items() if now > entry.until + 4 * entry.seconds]
        for key in over:
            del self._entries[key]
