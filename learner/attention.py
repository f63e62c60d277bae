"""Whether the learner was listening: while it was not, messages were read late, and no peer counts as silent for it."""

STALL_SECONDS = 2.0
"""A pause between two looks of at least this long is a stall of the learner: a large batch, a slow write or a stopped
process."""


class Attention:
    def __init__(self, now: float) -> None:
        self._looked = now
        self._heard_all = now
        """The last time when no message was waiting to be read, moved forward by the stalls since."""

    def look(self, now: float, heard_all: bool) -> float:
        """Return the seconds for which the learner did not listen before this look at its sockets; usually 0.

        `heard_all`: no message is waiting to be read.
        """
        pause, self._looked = now - self._looked, now
        stall = pause if pause >= STALL_SECONDS else 0.0
        self._heard_all = now if heard_all else self._heard_all + stall
        return stall

    def heard_until(self, seconds: float) -> float:
        """Return the time up to which a peer's silence of `seconds` is certain.

        This is the last time when all waiting messages had been read. Where messages are always waiting, it is the last
        look at the sockets: by then every peer has had its turn.
        """
        return self._looked if self._looked - self._heard_all > seconds else self._heard_all
