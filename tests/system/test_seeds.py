"""The same training with several seeds, as processes: to the end, gone on with, and ended by Ctrl-C."""

from __future__ import annotations

import json
import signal

import pytest

from tests.helpers.daemons import Daemons

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
WORDS = ("CartPole-v1", "--run-dir", "mine", "--actors", 1, "--set", "environment.num_envs=4")


@pytest.mark.long
def test_one_after_the_other_and_another_later(daemons: Daemons) -> None:
    first = daemons.run("train", *WORDS, "--seeds", "0..1", "--frames", 2_000)
    lines = [line.split() for line in first.printed.splitlines()]
    assert [line[:5] for line in lines[1:3]] == [
        [f"mine/seed-{seed}", "CartPole-v1", "a3c", str(seed), "finished"] for seed in (0, 1)
    ]
    assert lines[5][:3] == ["CartPole-v1", "a3c", "2"]
    assert first.at_work() == []

    again = daemons.run("train", *WORDS, "--seeds", "0..2", "--frames", 2_000, "--resume", "--json")
    told = json.loads(again.printed)
    assert [(one["run"]["seed"], one["run"]["state"], one["exit_code"]) for one in told] == [
        (seed, "finished", 0) for seed in range(3)
    ]
    assert again.said.count("it goes on with a higher limit or goal") == 2
    assert again.said.count("epoch 1 listens") == 1
    assert again.at_work() == []


def test_ctrl_c_ends_all_and_shows_what_there_is(daemons: Daemons) -> None:
    training = daemons.start("train", *WORDS, "--seeds", "0..1", "--set", "limits.until_return=501.0")
    training.wait_for("seed 0  ", "  frames ")
    training.signal(signal.SIGINT)
    assert training.wait() == 130
    assert training.at_work() == []
    lines = training.printed.splitlines()
    assert lines[1].split()[:5] == ["mine/seed-0", "CartPole-v1", "a3c", "0", "stopped"]
    assert "  seed 1: not begun" in lines
    assert lines[-1].startswith("  go on     a3cd train CartPole-v1 ")
    assert "seed 1 (2 of 2)" not in training.said
