"""A method of values from beginning to end: exploration and the target network over real sockets, and a resume."""

from __future__ import annotations

import numpy as np
import pytest

from common.run.folder import RunFolder
from tests.helpers.daemons import Daemons

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def test_it_plays_learns_and_goes_on(daemons: Daemons) -> None:
    run_dir = daemons.folder / "run"
    words = ("train", "CartPole-v1", "--algorithm", "n-step-q", "--json", "--run-dir", run_dir, "--seconds", 120)
    settings = ("--set", "algorithm.target_frames=10000", "--set", "limits.until_return=500.0")
    first = daemons.start(*words, *settings, "--frames", 12_000)
    assert first.wait(200) == 0
    assert first.result["algorithm"] == "n-step-q"
    assert first.result["gradients"] > 0
    assert first.result["refused"] == 0
    newest = RunFolder(run_dir).newest()
    assert newest is not None
    before = newest.read()
    target = before.optimizer["target"]
    assert target.shape == before.weights.shape
    assert not np.array_equal(target, before.weights)

    again = daemons.start(*words, "--resume", *settings, "--frames", 14_000)
    assert again.wait(200) == 0
    newest = RunFolder(run_dir).newest()
    assert newest is not None
    after = newest.read()
    assert after.version > before.version
    assert np.array_equal(after.optimizer["target"], target), "no multiple of 10,000 frames lies between"
    assert again.at_work() == []
    assert again.errors == []
    daemons.run("evaluate", run_dir, "--episodes", 2, "--sampled")
