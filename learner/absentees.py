"""Absentees: actors that a launcher runs but that are not in the run, because they hang before they join it.

Neither side can detect this alone: the launcher sees a live process, and the learner has never heard of the actor.
"""

from collections.abc import Collection, Sequence

LEAST_SECONDS = 120.0
"""Shortest absence that counts as hanging. An actor that is refused says hello once a minute, so never counts."""


def called(name: str) -> set[str]:
    """Return every form in which this name may be reported: a launcher does not know the key names that prefix it.

    >>> sorted(called("site/lab-0"))
    ['lab-0', 'site/lab-0']
    """
    parts = name.split("/")
    return {"/".join(parts[begin:]) for begin in range(len(parts))}


class Absentees:
    """The absentees of one launcher.

    At most `expiry_seconds` count between two of its reports: in a longer gap the learner may have heard nobody.
    """

    def __init__(self, expiry_seconds: float, patience: float) -> None:
        """`patience`: how long an actor may load its libraries, as a multiple of `expiry_seconds`."""
        self._most = expiry_seconds
        self._after = max(patience * expiry_seconds, LEAST_SECONDS)
        self._seconds: dict[str, float] = {}
        self._reported = 0.0

    def reported(self, now: float, running: Sequence[str], present: Collection[str]) -> None:
        """Take a report: the launcher runs the actors `running`; those in `present` are in the run."""
        passed = min(now - self._reported, self._most)
        before, self._reported = self._seconds, now
        self._seconds = {
            name: before[name] + passed if name in before else 0.0 for name in running if name not in present
        }

    def heard(self, names: Collection[str]) -> None:
        """Note that an actor said hello; `names` are the forms in which it may be reported."""
        for name in names:
            self._seconds.pop(name, None)

    def hanging(self) -> dict[str, float]:
        """Return the actors that hang, each with the seconds for which it is known to."""
        if not self._seconds:
            return {}
        return {name: seconds for name, seconds in self._seconds.items() if seconds >= self._after}
