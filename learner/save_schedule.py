"""When checkpoints are saved, how the last one went, and what `status` says of it."""

import math

from common.host.backoff import Backoff
from common.run.status import CheckpointStatus

RETRY_SECONDS = 2.0
"""After a checkpoint that could not be written; twice as long after each further one, up to the usual time."""
BEST_SECONDS = 5.0
"""Shortest time between a checkpoint and one for the sake of a new best mean return."""


class SaveSchedule:
    """Pure: it is told when a checkpoint is begun, and what became of it. One is written at a time."""

    def __init__(self, every_seconds: float, now: float, version: int | None) -> None:
        """`every_seconds` 0: only at the end. `version` is that of the checkpoint a resumed run goes on from."""
        self._every = every_seconds or math.inf
        self._due = now + self._every
        self._begun = self._kept = now
        self._version = version
        self._error = ""
        self._retries = Backoff(RETRY_SECONDS, self._every)
        self._writing = False

    @property
    def deadline(self) -> float:
        """When the next is due; never while one is being written."""
        return math.inf if self._writing else self._due

    def may_be_early(self, now: float) -> bool:
        """Whether one may be saved before it is due, for the sake of a new best."""
        return not self._writing and self._every < math.inf and now - self._begun >= BEST_SECONDS

    @property
    def error(self) -> str:
        """Why the last one could not be written; empty: it is on the disk."""
        return self._error

    @property
    def writing(self) -> bool:
        return self._writing

    @property
    def version(self) -> int | None:
        """Of the newest on the disk; None: there is none."""
        return self._version

    def begin(self, now: float) -> None:
        self._begun = now
        self._due = now + self._every
        self._writing = True

    def hurry(self, now: float) -> None:
        """The next is due at once, or when the one that is being written is."""
        self._due = min(self._due, now)

    def saved(self, version: int) -> bool:
        """The one that was begun is on the disk; says whether the one before it was not."""
        mended = bool(self._error)
        self._version, self._kept, self._error = version, self._begun, ""
        self._retries.reset()
        self._writing = False
        return mended

    def failed(self, now: float, error: str) -> None:
        """The one that was begun could not be written: the next is due soon, and later each time."""
        self._error = error
        self._due = min(self._begun + self._every, now + self._retries.next())
        self._writing = False

    @property
    def safe(self) -> str:
        """For a person: from where the run would go on."""
        if self._version is None:
            return "no checkpoint was ever written: nothing of the run is safe"
        return f"safe is the checkpoint of version {self._version}"

    def status(self, now: float) -> CheckpointStatus:
        age = None if self._version is None else now - self._kept
        return CheckpointStatus(version=self._version, age=age, error=self._error)
