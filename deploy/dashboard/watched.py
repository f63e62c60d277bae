"""A run that is watched, as the page shows it. Pure: the time is an argument, and no socket or file is read."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from common.errors import A3cdError
from common.run.status import RunStatus
from deploy.dashboard.events import Event, Kind, between, between_rows, between_states
from deploy.dashboard.history import History, Samples

EVENTS = 1000
"""Most events that are kept, the newest ones."""
SILENT_SECONDS = 4.0
"""After this time without an answer the learner counts as away."""
FIGURES = (
    *("seconds", "frames", "episodes", "mean_return", "episode_length", "episode_seconds", "frames_per_second"),
    *("gradients_per_second", "bytes_per_second", "lag_mean", "lag_p95", "learner_busy", "actors_wanted"),
)
"""Figures of a status that have a curve; a row of a run's metrics calls them the same."""
ACTOR_FIELDS = (
    *("name", "host", "state", "frames", "frames_per_second", "gradients", "stale", "refused", "lag", "seen"),
    *("last_error", "launcher", "pid"),
)
"""What the page gets of each actor, in this order."""

Source = Literal["learner", "folder"]


@dataclass
class Past:
    """What the rows of a run's metrics tell, oldest first."""

    history: History = field(default_factory=History)
    events: list[Event] = field(default_factory=list)
    row: Mapping[str, Any] | None = None
    """The last row."""
    settings: str = ""
    """The run's settings as TOML; empty: they cannot be read here."""

    def read(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            self.history.add(known(row))
            self.events += between_rows(self.row, row)
            self.row = row


class WatchedRun:
    """Written by one thread, read by another."""

    def __init__(self, source: Source, where: str, now: float) -> None:
        """`where`: the learner's address or the folder; times are seconds since 1970 by this machine's clock."""
        self.source = source
        self.where = where
        self._lock = threading.Lock()
        self._past = Past()
        self._events: deque[Event] = deque(maxlen=EVENTS)
        self._told = 0
        """Number of events so far, including those that are no longer kept."""
        self._status: RunStatus | None = None
        self._figures: dict[str, Any] = {}
        self._heard = now
        self._away_since: float | None = now
        self.problem: A3cdError | None = None
        """Why there is no answer, where that is known."""
        self._ended = ""
        """What the learner said when it ended."""

    @property
    def answered(self) -> bool:
        """Whether anything is known of the run."""
        return bool(self._figures)

    def took(self, now: float, status: RunStatus, past: Past | None = None) -> None:
        """Take a status that came.

        `past`: with the first status of a run, what its folder tells of the time before, if that can be read.
        """
        with self._lock:
            before = self._status
            if before is None or before.run != status.run:
                self._past = past or Past()
                self._remember(self._past.events)
            self._remember(between(before, status))
            if before is not None and self._away_since is not None:
                self._remember([Event(now, status.seconds, "run", "the learner answers again")])
            self._status, self._heard, self._away_since = status, now, None
            self.problem, self._ended = None, ""
            self._figures = figures(status)
            self._past.history.add(row(status))

    def read(self, now: float, past: Past, figures: Mapping[str, Any]) -> None:
        """Take what was read from the run's folder.

        `past`: with the events since the last time; `figures`: what else it tells, at least the run's state, under the
        names of a status.
        """
        with self._lock:
            self._past = past
            self._remember(past.events)
            past.events = []
            row = past.row or {}
            self._remember(between_states(self._figures.get("state", "running"), figures["state"], row))
            last = known(row)
            self._figures = {"actors_now": last.pop("actors", None), **last, **figures}
            self._heard, self._away_since, self.problem = now, None, None

    def looked(self, now: float) -> None:
        """Note that there was no answer; called often."""
        with self._lock:
            if self._away_since is None and now > self._heard + SILENT_SECONDS:
                self._away_since = self._heard
                self._remember([self._now(now, "trouble", "the learner does not answer")])

    def failed(self, now: float, problem: A3cdError) -> None:
        """Note that the run cannot be watched for now, and why."""
        with self._lock:
            if str(problem) != str(self.problem):
                self._remember([self._now(now, "trouble", str(problem))])
            self.problem = problem
            self._away_since = self._heard if self._away_since is None else self._away_since

    def ended(self, now: float, reason: str) -> None:
        """Note that the learner said goodbye."""
        with self._lock:
            if reason != self._ended:
                self._ended = reason
                self._away_since = now
                self._remember([self._now(now, "run", f"the learner has ended: {reason}")])

    @property
    def settings(self) -> str:
        """The run's settings as TOML; empty: they cannot be read here."""
        return self._past.settings

    @property
    def status(self) -> RunStatus | None:
        """The newest status; None while the learner does not answer."""
        return None if self._away_since is not None else self._status

    def summary(self, number: int, now: float) -> dict[str, Any]:
        """What is shown of each run."""
        with self._lock:
            return {
                "number": number,
                "source": self.source,
                "where": self.where,
                "answered": self.answered,
                "away": None if self._away_since is None else max(0.0, now - self._away_since),
                "away_since": self._away_since,
                "problem": "" if self.problem is None else str(self.problem),
                "ended": self._ended,
                "changes": self._past.history.changes,
                **{name: self._figures.get(name) for name in ("env", "algorithm", "state", "mean_return", "frames")},
            }

    def details(self, since: int) -> dict[str, Any]:
        """What is shown of the selected run, without the first `since` of all its events.

        A page that has seen more events than there are was told them by a dashboard that has been restarted since, and
        is given all of this one's.
        """
        with self._lock:
            status = self._status
            first = max(since if since <= self._told else 0, self._told - len(self._events))
            actors = [] if status is None else status.actors
            return {
                "figures": self._figures,
                "actors": [[getattr(actor, name) for name in ACTOR_FIELDS] for actor in actors],
                "relays": [] if status is None else status.relays,
                "launchers": [] if status is None else status.launchers,
                "told": self._told,
                "events": list(self._events)[len(self._events) - (self._told - first) :],
                "settings": bool(self._past.settings),
            }

    def sample(self, over: str, start: float | None, end: float | None, points: int) -> tuple[int, Samples]:
        """How often the history has changed, and its curves, as `History.sample`."""
        with self._lock:
            return self._past.history.changes, self._past.history.sample(over, start, end, points)

    def _remember(self, events: list[Event]) -> None:
        self._events.extend(events)
        self._told += len(events)

    def _now(self, now: float, kind: Kind, text: str) -> Event:
        return Event(now, float(self._figures.get("seconds") or 0.0), kind, text)


def figures(status: RunStatus) -> dict[str, Any]:
    """The status in plain values, without the peers, which have tables of their own."""
    plain: dict[str, Any] = msgspec.to_builtins(status)
    del plain["actors"], plain["launchers"], plain["relays"]
    return plain


def row(status: RunStatus) -> dict[str, Any]:
    """The status as a row of a run's metrics has it."""
    found = status.evaluation
    evaluated = {} if found is None else {
        "evaluation_return": found.mean,
        "evaluation_low": found.low,
        "evaluation_high": found.high,
    }  # fmt: skip
    plain = {name: getattr(status, name) for name in FIGURES} | {"actors": status.actors_now}
    return status.losses | evaluated | plain


_TABLES = ("raw", "actor_frames_per_second")


def known(row: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of a row of the metrics: neither the raw losses nor each actor's frames per second."""
    return {name: value for name, value in row.items() if name not in _TABLES}
