"""Notices that a process did nothing for a while: it was stopped, its host suspended, or one call took long."""

TOLD_SECONDS = 10.0


class Standstill:
    def __init__(self, now: float) -> None:
        self._looked = now

    def look(self, now: float) -> float:
        """Return the seconds since the last look, if they are worth reporting; else 0."""
        seconds, self._looked = now - self._looked, now
        return seconds if seconds >= TOLD_SECONDS else 0.0
