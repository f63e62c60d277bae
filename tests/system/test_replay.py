"""A run that records, killed in the middle: `a3cd replay` makes the same weights of what was applied."""

from __future__ import annotations

import pytest

from common.run.folder import RunFolder
from learner.record.gradient_log import segments
from tests.helpers.daemons import Daemons
from tests.helpers.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(300)]

RECORDED = ("--set", "record.gradients=true", "--set", "checkpoint.every_seconds=0.3", "--frames", "30000")
PACED = ("--set", "environment.step_seconds=0.004")
VERSION = 10
"""A checkpoint of it or a newer one is written before the learner is killed."""


def test_after_a_kill_and_a_resume_the_weights_are_those_of_the_record(daemons: Daemons) -> None:
    run_dir = daemons.folder / "run"
    folder = RunFolder(run_dir)
    training = daemons.start("train", "CartPole-v1", *RECORDED, *PACED, "--run-dir", run_dir)
    until(lambda: any(one.order[0] >= VERSION for one in folder.all_checkpoints()), f"version {VERSION}")
    (learner,) = training.members("learner")
    learner.kill()
    assert training.wait() != 0
    killed = daemons.run("replay", run_dir, "--json").result
    assert killed["equal"] and killed["version"] >= VERSION and killed["duplicates"] == []

    daemons.run("train", "CartPole-v1", "--resume", "--run-dir", run_dir)
    result = daemons.run("replay", run_dir, "--json").result
    assert result["equal"] and result["duplicates"] == [] and result["difference"] == ""
    newest = folder.newest()
    assert newest is not None
    counters = newest.read().state["counters"]
    assert (result["version"], result["contributions"]) == (counters["version"], counters["gradients"])
    assert newest.folder.name in result["checkpoints"]
    assert {epoch for epoch, _, _ in segments(folder.gradients)} == {1, 2}

    path = segments(folder.gradients)[-1][2]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    damaged = daemons.run("replay", run_dir, code=78)
    assert f"{path}: damaged at byte " in damaged.printed
