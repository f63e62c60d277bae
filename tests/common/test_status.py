from __future__ import annotations

from typing import Any

import msgspec
import pytest

from common.messages import Status
from common.status import SUMMARY_KEYS, FleetStatus, PeerStatus, RunStatus, summary
from common.wire import pack, unpack

PROMISED = (
    *("env", "algorithm", "network", "seed", "frames", "episodes", "seconds", "frames_per_second", "mean_return"),
    *("reached", "gradients", "gradient_bytes", "weight_bytes", "lag_mean", "lag_p95", "actors_peak", "learner_busy"),
    "run_dir",
)
PEER = PeerStatus(
    name="lab7-1",
    host="lab7",
    pid=1,
    launcher="lab7",
    state="working",
    trouble="",
    frames=10,
    frames_per_second=1.5,
    gradients=2,
    stale=0,
    refused=0,
    lag=0.5,
    seen=0.1,
    versions={"python": "3.11"},
)
FLEET = FleetStatus(
    name="lab7",
    host="lab7",
    slots=8,
    ordered=4,
    running=3,
    starting=1,
    failed=0,
    gave_up=False,
    exit_code=0,
    why="",
)


def run_status(**changes: Any) -> RunStatus:
    """One with every optional figure missing."""
    zeros: dict[type, Any] = {int: 0, float: 0.0, str: "", bool: False}
    kinds = {field.name: field.type for field in msgspec.structs.fields(RunStatus) if field.required}
    fields: dict[str, Any] = {name: zeros.get(kind) for name, kind in kinds.items()}
    return RunStatus(**fields | changes)


@pytest.mark.parametrize("status", [run_status(), run_status(mean_return=1.5, peers=[PEER], fleets=[FLEET])])
def test_over_the_wire_and_back(status: RunStatus) -> None:
    message = unpack(pack(Status(report=msgspec.to_builtins(status))))
    assert isinstance(message, Status)
    assert RunStatus.read(message.report) == status


@pytest.mark.parametrize(
    ("report", "why"),
    [
        ({}, "missing required field `run`"),
        (msgspec.to_builtins(run_status()) | {"epoch": "1"}, r"Expected `int`, got `str` - at `\$.epoch`"),
        (msgspec.to_builtins(run_status()) | {"peers": [{}]}, r"at `\$.peers\[0\]`"),
    ],
)
def test_another_learners_report_is_refused(report: dict[str, Any], why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        RunStatus.read(report)


def test_the_summary_has_the_keys_promised_and_no_lists() -> None:
    found = summary(run_status(env="CartPole-v1", mean_return=475.0, peers=[PEER]))
    assert tuple(found) == SUMMARY_KEYS
    assert set(PROMISED) <= set(found)
    assert all(value is None or isinstance(value, int | float | str) for value in found.values())
    assert (found["env"], found["mean_return"]) == ("CartPole-v1", 475.0)


def test_the_rate_in_the_summary_is_that_of_the_whole_run() -> None:
    assert summary(run_status(frames=1000, seconds=8.0, frames_per_second=9.0))["frames_per_second"] == 125.0
    assert summary(run_status(frames=0, seconds=0.0))["frames_per_second"] == 0.0
