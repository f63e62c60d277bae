from __future__ import annotations

from typing import Any

import msgspec
import pytest

from common.run.status import SUMMARY_KEYS, RunStatus, summary
from common.wire.frames import pack, unpack
from common.wire.messages import Status
from tests.helpers.status import evaluation_status, fleet_status, peer_status, run_status

PROMISED = (
    *("env", "algorithm", "network", "seed", "frames", "episodes", "seconds", "frames_per_second", "mean_return"),
    *("reached", "gradients", "gradient_bytes", "weight_bytes", "lag_mean", "lag_p95", "actors_peak", "learner_busy"),
    "run_dir",
)
BARE = run_status(mean_return=None, best_return=None, episode_length=None, episode_seconds=None, goal=None)

FULL = run_status(actors=[peer_status()], launchers=[fleet_status()], evaluation=evaluation_status(low=None))


@pytest.mark.parametrize("status", [BARE, FULL])
def test_over_the_wire_and_back(status: RunStatus) -> None:
    message = unpack(pack(Status(report=msgspec.to_builtins(status))))
    assert isinstance(message, Status)
    assert msgspec.convert(message.report, RunStatus) == status


@pytest.mark.parametrize(
    ("report", "why"),
    [
        ({}, "missing required field `run`"),
        (msgspec.to_builtins(run_status()) | {"epoch": "1"}, r"Expected `int`, got `str` - at `\$.epoch`"),
        (msgspec.to_builtins(run_status()) | {"actors": [{}]}, r"at `\$.actors\[0\]`"),
    ],
)
def test_another_learners_report_is_refused(report: dict[str, Any], why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert(report, RunStatus)


def test_the_summary_has_the_keys_promised_and_no_lists() -> None:
    found = summary(run_status(env="CartPole-v1", mean_return=475.0, actors=[peer_status()]))
    assert tuple(found) == SUMMARY_KEYS
    assert set(PROMISED) <= set(found)
    assert all(value is None or isinstance(value, int | float | str) for value in found.values())
    assert (found["env"], found["mean_return"]) == ("CartPole-v1", 475.0)


def test_an_evaluation_in_words() -> None:
    assert str(evaluation_status()) == "mean return 91.5 (88.2 to 94.8) over 40 episodes"
    assert str(evaluation_status(low=None, high=None, episodes=1)) == "mean return 91.5 over 1 episodes"


def test_the_summary_has_the_best_evaluation_flat() -> None:
    assert summary(run_status())["best_evaluation"] is None
    found = summary(run_status(best_evaluation=evaluation_status(), evaluations=4))
    figures = [found[f"best_evaluation{of}"] for of in ("", "_low", "_high", "_episodes", "_version")]
    assert [found["evaluations"], *figures] == [4, 91.5, 88.2, 94.8, 40, 20_000]


def test_the_rate_in_the_summary_is_that_of_the_whole_run() -> None:
    assert summary(run_status(frames=1000, seconds=8.0, frames_per_second=9.0))["frames_per_second"] == 125.0
    assert summary(run_status(frames=0, seconds=0.0))["frames_per_second"] == 0.0
