"""When checkpoints are saved, whether the last one was written, and what `status` says about it."""

import math
from collections import deque

from common.host.backoff import Backoff
from common.run.status import CheckpointStatus

RETRY_SECONDS = 2.0
"""Time until the next attempt after a checkpoint could not be written; doubled after each further failure, up to the
usual interval."""
BEST_SECONDS = 5.0
"""Shortest time between a checkpoint and another one that is saved because of a new best mean return."""


class SaveSchedule:
    """Pure state: it is told when a checkpoint is begun, and how that ended.

    One is written at a time, except at an end: the last one may be begun while another is still being written.
    """

    def __init__(self, every_seconds: float, now: float, version: int | None) -> None:
        """`every_seconds`: 0 saves only at the end. `version`: that of the checkpoint from which the run is resumed."""
        self._every = every_seconds or math.inf
        self._due = now + self._every
        self._begun = self._kept = now
        self._version = version
        self._error = ""
        self._retries = Backoff(RETRY_SECONDS, self._every)
        self._under_way: deque[float] = deque()
        """When each checkpoint that is being written was begun, the oldest first."""

    @property
    def deadline(self) -> float:
        """When the next checkpoint is due; infinite while one is being written."""
        return math.inf if self.writing else self._due

    def may_be_early(self, now: float) -> bool:
        """Whether a checkpoint may be saved before it is due, because of a new best."""
        if self.writing or self._error:  # what the disk did not take is tried again in its own time
            return False
        return self._every < math.inf and now - self._begun >= BEST_SECONDS

    @property
    def error(self) -> str:
        """Why the last checkpoint could not be written; empty: it is on the disk."""
        return self._error

    @property
    def writing(self) -> bool:
        return bool(self._under_way)

    @property
    def version(self) -> int | None:
        """Version of the newest checkpoint on the disk; None: there is none."""
        return self._version

    def begin(self, now: float) -> None:
        self._begun = now
        self._due = now + self._every
        self._under_way.append(now)

    def hurry(self, now: float) -> None:
        """Make the next checkpoint due at once, or as soon as the one being written is finished."""
        self._due = min(self._due, now)

    def saved(self, version: int) -> bool:
        """Note that the oldest one under way is on the disk; return whether the one before it had failed."""
        mended = bool(self._error)
        self._version, self._kept, self._error = version, self._under_way.popleft(), ""
        self._retries.reset()
        return mended

    def failed(self, now: float, error: str) -> None:
        """Note that the oldest one under way could not be written: the next is due soon, but later each time."""
        self._error = error
        self._due = min(self._under_way.popleft() + self._every, now + self._retries.next())

    @property
    def safe(self) -> str:
        """Text for people: from which checkpoint the run could be resumed."""
        if self._version is None:
            return "no checkpoint was ever written: nothing of the run is safe"
        return f"safe is the checkpoint of version {self._version}"

    def status(self, now: float) -> CheckpointStatus:
        age = None if self._version is None else now - self._kept
        return CheckpointStatus(version=self._version, age=age, error=self._error)
