"""What happened in a run between one status and the next, or between one row of its metrics and the next."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec

from common.run.status import FleetStatus, RunStatus, SenderStatus

NAMED = 4
"""Most peers that one event names."""

Kind = Literal["run", "actors", "scaling", "launchers", "evaluation", "checkpoint", "trouble"]


class Event(msgspec.Struct, frozen=True):
    time: float
    """Seconds since 1970, by the learner's clock; 0: not known."""
    seconds: float
    """Seconds of the run."""
    kind: Kind
    text: str


def between(before: RunStatus | None, after: RunStatus) -> list[Event]:
    """What happened between two statuses; without `before`, one event that says which run is watched."""
    told = _found(after) if before is None else _changes(before, after)
    return [Event(after.time, after.seconds, kind, text) for kind, text in told]


def between_rows(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[Event]:
    """The same for two rows of a run's metrics, which say less."""
    return _after(after, _row_changes(before, after))


def between_states(before: str, after: str, row: Mapping[str, Any]) -> list[Event]:
    """That a run came from one state into another after a row of its metrics."""
    return _after(row, _state(before, after))


Told = Iterator[tuple[Kind, str]]


def _after(row: Mapping[str, Any], told: Told) -> list[Event]:
    time, seconds = (_float(row.get(name)) for name in ("time", "seconds"))
    return [Event(time, seconds, kind, text) for kind, text in told]


def _found(status: RunStatus) -> Told:
    epoch = f", epoch {status.epoch}" if status.epoch > 1 else ""
    yield "run", f"watched from here: {status.env}, {status.algorithm}, {status.state}{epoch}"


def _changes(before: RunStatus, after: RunStatus) -> Told:
    if after.run != before.run:
        yield "run", f"another run: {after.env}, {after.algorithm}"
        return
    if after.epoch != before.epoch:
        back = f", back to {after.frames:,} frames" if after.frames < before.frames else ""
        yield "run", f"the learner was started again: epoch {after.epoch}{back}"
    else:
        yield from _state(before.state, after.state)
    yield from _senders("", before.actors, after.actors)
    yield from _senders("relay ", before.relays, after.relays)
    yield from _scaling(before.actors_wanted, before.why, after.actors_wanted, after.why)
    yield from _launchers(before.launchers, after.launchers)
    yield from _evaluations(before, after)
    yield from _troubles(before, after)


def _state(before: str, after: str) -> Told:
    if after != before:
        yield "run", f"{before}, now {after}"


def _senders(role: str, before: Sequence[SenderStatus], after: Sequence[SenderStatus]) -> Told:
    """Who came and went; `role` goes before the names."""
    was, now = ({sender.name: sender for sender in senders} for senders in (before, after))
    if joined := [name for name in now if name not in was]:
        yield "actors", f"{role}{_some(joined)} joined"
    if left := [name for name in was if name not in now]:
        yield "actors", f"{role}{_some(left)} left"
    both = [(was[name], sender) for name, sender in now.items() if name in was]
    if again := [new.name for old, new in both if new.pid != old.pid]:
        yield "actors", f"{role}{_some(again)} joined again as another process"
    failing = [new for old, new in both if new.last_error and new.last_error != old.last_error]
    yield from (("trouble", f"{role}{sender.name}: {sender.last_error}") for sender in failing[:NAMED])


def _scaling(wanted: int, why: str, wanted_now: int, why_now: str) -> Told:
    """Tells a changed number of actors, or a new reason to hold a change back.

    Reasons are compared without their figures, which change all the time.
    """
    if wanted_now != wanted or (why_now.startswith("held") and _shape(why_now) != _shape(why)):
        yield "scaling", why_now or f"{wanted_now} actors are wanted"


def _launchers(before: list[FleetStatus], after: list[FleetStatus]) -> Told:
    was, now = ({launcher.name: launcher for launcher in launchers} for launchers in (before, after))
    if joined := [name for name in now if name not in was]:
        yield "launchers", f"launcher {_some(joined)} joined"
    if left := [name for name in was if name not in now]:
        yield "launchers", f"launcher {_some(left)} left"
    for name, new in now.items():
        old = was.get(name)
        if old is None:
            continue
        if new.gave_up and not old.gave_up:
            yield "trouble", f"launcher {name} cannot start actors (exit code {new.exit_code}): {new.why}"
        elif old.gave_up and not new.gave_up:
            yield "launchers", f"launcher {name} starts actors again"
        elif new.failed > old.failed:
            yield "launchers", f"on {name} {_count(new.failed - old.failed)} failed: {new.why or 'no reason was told'}"


def _evaluations(before: RunStatus, after: RunStatus) -> Told:
    old, new = before.best_evaluation, after.best_evaluation
    if new is not None and (old is None or old.version != new.version):
        yield "evaluation", f"the best weights are of version {new.version:,}: {new}"
    if after.returns_to_best > before.returns_to_best:
        yield "checkpoint", f"back to the best checkpoint, learning rate times {after.learning_rate_factor:g}"
    if after.checkpoint.error and after.checkpoint.error != before.checkpoint.error:
        yield "trouble", f"the checkpoint could not be written: {after.checkpoint.error}"
    elif before.checkpoint.error and not after.checkpoint.error:
        yield "checkpoint", "checkpoints are written again"


def _troubles(before: RunStatus, after: RunStatus) -> Told:
    out = {one.name for one in before.quarantined}
    for one in after.quarantined:
        if one.name not in out:
            yield "trouble", f"{one.name} is kept out for {one.seconds_left:.0f} s: {one.why}"
    if back := sorted(out - {one.name for one in after.quarantined}):
        yield "actors", f"{_some(back)} may come back"
    known = {_shape(text) for text in before.health}
    yield from (("trouble", text) for text in after.health if _shape(text) not in known)
    yield from (("trouble", text) for text in after.warnings if text not in before.warnings)


def _row_changes(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Told:
    if before is None:
        yield "run", "the first row of the run's metrics"
        before = {}
    frames, frames_now = (_float(row.get("frames")) for row in (before, after))
    if frames_now < frames:
        yield "run", f"the learner was started again, back to {frames_now:,.0f} frames"
    actors, actors_now = (int(_float(row.get("actors"))) for row in (before, after))
    if actors_now != actors:
        word = "joined" if actors_now > actors else "left"
        yield "actors", f"{_count(abs(actors_now - actors))} {word}: there are {actors_now}"
    wanted, wanted_now = (int(_float(row.get("actors_wanted"))) for row in (before, after))
    yield from _scaling(wanted, str(before.get("why", "")), wanted_now, str(after.get("why", "")))
    version, mean = after.get("evaluation_version"), after.get("evaluation_return")
    if mean is not None and version != before.get("evaluation_version"):
        yield "evaluation", f"version {_float(version):,.0f}: mean return {_float(mean):.4g}"


def _some(names: Collection[str]) -> str:
    if len(names) <= NAMED:
        return ", ".join(sorted(names))
    return f"{', '.join(sorted(names)[: NAMED - 1])} and {len(names) - NAMED + 1} more"


def _count(actors: int) -> str:
    return "1 actor" if actors == 1 else f"{actors:,} actors"


def _shape(text: str) -> str:
    return re.sub(r"[\d.,]+", "#", text)


def _float(value: object) -> float:
    with suppress(OverflowError):  # a whole number beyond any float
        return float(value) if isinstance(value, int | float) else 0.0
    return 0.0
