"""Follows the folder of a run and gives its rows to a tracker, whatever happens to either.

If the tracker fails (no network, a full disk, any exception), the rows stay in the run folder, and are given to it
again after ever longer pauses. How far it has come is kept in `trackers/` of the run folder, so that the same command,
given again, goes on from there.
"""

from __future__ import annotations

import contextlib
import logging
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from common.errors import A3cdError, ConfigurationError, UnavailableError
from common.host import file_lock
from common.host.atomic_file import replace_file
from common.host.backoff import Backoff
from common.run.folder import RunFolder
from common.run.metrics_rows import MetricsRows, Place
from deploy.tracking.rows import tracked
from deploy.tracking.tracker import Target, TrackedRun, Tracker, open_tracker
from learner.record.hyperparameters import hyperparameters

LOOK_SECONDS = 1.0
"""Pause between two looks for new rows, of which the learner writes one a second."""
QUIET_SECONDS = 5.0
"""Time without a row before a look whether there is a learner at all."""
AT_ONCE = 200
"""Rows read at a time."""
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 2.0, 60.0
LAST_TRIES = 3
"""Failures in a row after which the tracker is given up, once the run is over."""
Wait = Callable[[float], bool]
"""Waits so many seconds, perhaps none, and says whether to stop."""
_log = logging.getLogger("track")


class State(msgspec.Struct, frozen=True):
    """The content of `trackers/KIND.json`."""

    project: str = ""
    uri: str = ""
    place: Place = Place()


@dataclass(frozen=True)
class Outcome:
    rows: int
    """Rows given to the tracker by this call."""
    state: str
    """The run's: as in its summary; interrupted: its learner is gone without one; running: it was not waited for."""


class Follower:
    """One run and one tracker."""

    def __init__(self, folder: RunFolder, kind: str, target: Target, name: str = "") -> None:
        """`name`: the run's name at the tracker; empty: that of its folder.

        Raises ConfigurationError where there is no run, UnavailableError where its folder cannot be written to.
        """
        self._folder, self._kind, self._target = folder, kind, target
        record = folder.record()
        own = folder.path / "trackers"
        self._state_file = own / f"{kind}.json"
        self._run = TrackedRun(record.run, name or folder.path.resolve().name, hyperparameters(folder.settings()), own)
        try:
            own.mkdir(exist_ok=True)
        except OSError as error:
            raise UnavailableError(f"{own}: {error.strerror}") from error
        self._place = self._read_place()
        self._before = self._place.rows
        self._rows = MetricsRows(folder.metrics_file, self._place)
        self._tracker: Tracker | None = None
        self._heard = time.monotonic()
        """When the last row came."""
        self._state = ""
        """The state as in Outcome once the run is over; empty before."""
        self._failures = 0
        """Failures in a row."""
        self._retries = Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)

    def follow(self, wait: Wait) -> Outcome:
        """Follow the run until it is over and the tracker has all of it, or until `wait` says to stop.

        Raises ConfigurationError for what a later try would not mend, UnavailableError if the tracker still fails when
        the run is over.
        """
        pause: float | None = 0.0
        while pause is not None and not wait(pause):
            try:
                pause = self._look()
            except ConfigurationError:
                raise
            except Exception as error:  # a tracker raises what it likes
                pause = self._failed(error)
        self._drop()
        return Outcome(self._place.rows - self._before, self._state or "running")

    def _look(self) -> float | None:
        """Give what has come to the tracker; return the seconds until the next look, None: the tracker has all."""
        self._state = self._state or self._over()  # before the rows: none comes after the summary
        first = self._rows.place.rows
        rows = [tracked(first + place, row) for place, row in enumerate(self._rows.next(AT_ONCE))]
        if rows:
            self._opened().log(rows)
            self._heard, self._place = time.monotonic(), self._rows.place
            self._write_place()
        elif self._state:
            self._opened().conclude(self._state, self._summary_numbers())
            self._opened().close()
            self._tracker = None
        self._failures = 0
        self._retries.reset()
        if rows:
            return 0.0
        return None if self._state else LOOK_SECONDS

    def _failed(self, error: Exception) -> float:
        """Return the seconds until the next try; raises UnavailableError after too many failures."""
        self._drop()
        self._rows = MetricsRows(self._folder.metrics_file, self._place)
        self._failures += 1
        text = f"{self._kind}: {_told(error)}"
        if self._state and self._failures >= LAST_TRIES:
            raise UnavailableError(f"{text}; the same command goes on from where it is") from error
        pause = self._retries.next()
        _log.warning("%s; tried again in %.0f s", text, pause)
        return pause

    def _opened(self) -> Tracker:
        if self._tracker is None:
            self._tracker = open_tracker(self._kind, self._run, self._target)
        return self._tracker

    def _drop(self) -> None:
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            with contextlib.suppress(Exception):  # the next tracker is given the same rows
                tracker.close()

    def _over(self) -> str:
        """How the run ended; empty while its learner works."""
        if summary := self._summary():
            return str(summary.get("state", "finished"))
        quiet = time.monotonic() - self._heard >= QUIET_SECONDS
        return "interrupted" if quiet and not file_lock.is_held(self._folder.lock_file) else ""

    def _summary(self) -> Mapping[str, Any]:
        with contextlib.suppress(A3cdError):  # the next look tries again
            return self._folder.summary()
        return {}

    def _summary_numbers(self) -> dict[str, float]:
        return {name: float(value) for name, value in self._summary().items() if isinstance(value, bool | int | float)}

    def _read_place(self) -> Place:
        try:
            state = msgspec.json.decode(self._state_file.read_bytes(), type=State)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return Place()
        same = (state.project, state.uri) == (self._target.project, self._target.uri)
        return state.place if same else Place()

    def _write_place(self) -> None:
        state = State(self._target.project, self._target.uri, self._place)
        try:
            replace_file(self._state_file, msgspec.json.encode(state))
        except OSError as error:  # the rows were given all the same; perhaps they are given once more
            _log.warning("%s: %s", self._state_file, error.strerror)


def _told(error: Exception) -> str:
    """One line of bearable length."""
    text = str(error).strip().partition("\n")[0]
    return textwrap.shorten(text, 200, placeholder=" ...") or type(error).__name__
