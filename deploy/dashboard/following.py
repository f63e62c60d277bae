"""The threads that fill the model: one for each learner or folder that is watched."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Event
from typing import Protocol

from common.errors import A3cdError, UnavailableError
from common.run.status import RunStatus
from common.wire.messages import Stop
from deploy.dashboard.folder import FolderReader
from deploy.dashboard.watched import Past, WatchedRun

ASK_SECONDS = 0.2
"""Longest wait for an answer before a look whether to stop."""
AGAIN_SECONDS = 10.0
"""Pause until a learner that refused is asked again."""
READ_SECONDS = 2.0
"""Pause between two readings of a folder."""


class StatusSource(Protocol):
    """A source of the statuses of one learner, such as an observer."""

    @property
    def ended(self) -> Stop | None: ...

    def next(self, seconds: float) -> RunStatus | None:
        """The next status; None if none comes within `seconds`. Raises A3cdError."""


Open = Callable[[], AbstractContextManager[StatusSource]]


def follow_learner(run: WatchedRun, source: Open, stopped: Event) -> None:
    """Tell `run` all that comes from the learner, until `stopped`, whatever happens to the learner meanwhile."""
    while not stopped.is_set():
        try:
            with source() as statuses:
                _listen(run, statuses, stopped)
        except A3cdError as error:
            run.failed(time.time(), error)
            stopped.wait(AGAIN_SECONDS)


def _listen(run: WatchedRun, statuses: StatusSource, stopped: Event) -> None:
    known = ""
    while not stopped.is_set():
        status = statuses.next(ASK_SECONDS)
        now = time.time()
        if status is not None:
            past = None if status.run == known else past_of(status)
            known = status.run
            run.took(now, status, past)
        elif statuses.ended is not None:
            run.ended(now, statuses.ended.reason)
        else:
            run.looked(now)


def past_of(status: RunStatus) -> Past | None:
    """What the run folder named by the learner tells, if it can be read here and belongs to the same run; else None."""
    reader = FolderReader(Path(status.run_dir))
    with suppress(A3cdError, OSError, ValueError):
        if reader.record().run == status.run:
            return reader.past()
    return None


def follow_folder(run: WatchedRun, reader: FolderReader, stopped: Event) -> None:
    """Tell `run` what is new in its folder, until `stopped`."""
    while not stopped.is_set():
        try:
            past = reader.past()
            run.read(time.time(), past, reader.figures())
        except A3cdError as error:
            run.failed(time.time(), error)
        except OSError as error:
            run.failed(time.time(), UnavailableError(f"{run.where}: cannot be read now: {error.strerror}"))
        stopped.wait(READ_SECONDS)
