"""Environments that raise or give what is no number."""

from __future__ import annotations

import pytest

from common.errors import EXIT_TRY_LATER
from tests.helpers.daemons import Daemons

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def test_one_that_raises_now_and_then_is_trained_on(daemons: Daemons) -> None:
    training = daemons.run(
        *("train", "broken_environments:RaisesMidEpisode-v0", "--actors", 1, "--frames", 2_000, "--json"),
        *("--set", "environment.step_seconds=0.01", "--set", "environment.num_envs=2", "--run-dir", "run"),
    )
    assert training.result["state"] == "finished"
    assert training.result["gradients"] >= 10
    assert "failed in step: RuntimeError: the emulator is gone" in training.said
    assert "warning: here-0: environment broken_environments:RaisesMidEpisode-v0" in training.said
    assert training.said.count('raise RuntimeError("the emulator is gone")') == 1, "where it is, once for the one actor"
    assert training.said.count("the emulator is gone") < 10, "a line each time would drown the rest"
    assert "left: gave up" not in training.said


@pytest.mark.long
def test_one_whose_rewards_are_no_numbers_ends_the_training(daemons: Daemons) -> None:
    env = "broken_environments:NanReward-v0"
    training = daemons.run(
        *("train", env, "--actors", 2, "--run-dir", "run", "--json"),
        *("--set", "environment.options={length=1}"),
        code=EXIT_TRY_LATER,
        seconds=280,
    )
    reason = "the environment gave a reward that is no finite number"
    assert 5 <= training.said.count(f"actor    warning: {reason}") <= 10, "once for each actor that was tried"
    assert f"learner  warning: here-0: {reason}" in training.said
    assert 5 <= training.said.count("exit_code=75") <= 10, "five times in one of two slots"
    assert "no actor can be started: 5 failures in a row" in training.errors[-1]
    assert "gave up after" in training.errors[-1]
    assert reason in training.errors[-1]
    assert training.at_work() == []
