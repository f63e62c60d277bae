"""Actors that a launcher runs and that are not in the run: they hang before they join, or hung without a learner.

Neither end alone can tell: their launcher sees a process that lives, and the learner never heard of them.
"""

from collections.abc import Collection, Sequence

LEAST_SECONDS = 120.0
"""An actor that is kept out knocks once a minute; whoever knocks does not hang."""


def called(name: str) -> set[str]:
    """All that this name may be told as: a launcher does not know the names of keys that stand before a name.

    >>> sorted(called("site/lab-0"))
    ['lab-0', 'site/lab-0']
    """
    parts = name.split("/")
    return {"/".join(parts[begin:]) for begin in range(len(parts))}


class Absentees:
    """Of one launcher. Between two of its reports at most `expiry_seconds` count: who stands still hears nobody."""

    def __init__(self, expiry_seconds: float, patience: float) -> None:
        """`patience`: times `expiry_seconds` for which an actor may load its libraries."""
        self._most = expiry_seconds
        self._after = max(patience * expiry_seconds, LEAST_SECONDS)
        self._seconds: dict[str, float] = {}
        self._reported = 0.0

    def reported(self, now: float, running: Sequence[str], present: Collection[str]) -> None:
        """The launcher runs these actors; those in `present` are in the run."""
        passed = min(now - self._reported, self._most)
        before, self._reported = self._seconds, now
        self._seconds = {
            name: before[name] + passed if name in before else 0.0 for name in running if name not in present
        }

    def heard(self, names: Collection[str]) -> None:
        """An actor that may be told as one of these said hello."""
        for name in names:
            self._seconds.pop(name, None)

    def hanging(self) -> dict[str, float]:
        """For how many seconds each is known to hang."""
        if not self._seconds:
            return {}
        return {name: seconds for name, seconds in self._seconds.items() if seconds >= self._after}
