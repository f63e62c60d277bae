"""Whether the learner listened: what peers said meanwhile comes late, and counts as no silence of theirs."""

STALL_SECONDS = 2.0
"""A longer pause between two looks, in a large batch, a slow write or a stopped process, is the learner's own."""


class Attention:
    def __init__(self, now: float) -> None:
        self._looked = now
        self._heard_all = now
        """When no message waited to be read."""

    def look(self, now: float, heard_all: bool) -> float:
        """Seconds in which the learner did not listen, before this look at its sockets; most often 0."""
        pause, self._looked = now - self._looked, now
        stall = pause if pause >= STALL_SECONDS else 0.0
        self._heard_all = now if heard_all else self._heard_all + stall
        return stall

    def heard_until(self, seconds: float) -> float:
        """Up to when a silence of so many seconds is known to be one.

        When all that waited was read last; where it never is, each has had its turn by now.
        """
        return self._looked if self._looked - self._heard_all > seconds else self._heard_all
