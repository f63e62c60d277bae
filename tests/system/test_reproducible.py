"""`a3cd train --reproducible` gives the same weights to the last bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from common.run.folder import RunFolder
from tests.helpers.daemons import Daemons

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    "words",
    [
        ("CartPole-v1", "--frames", 8000, "--actors", 3),
        ("CartPole-v1", "--frames", 2000, "--actors", 1, "--algorithm", "ppo", "--set", "network.lstm=8"),
    ],
    ids=["gradients", "trajectories"],
)
def test_the_same_command_gives_the_same_weights(words: tuple[object, ...], daemons: Daemons) -> None:
    results, vectors = [], []
    for name in ("one", "another"):
        run_dir = daemons.folder / name
        told = daemons.run("train", *words, "--reproducible", "--json", "--run-dir", run_dir, seconds=100)
        folder = RunFolder(run_dir)
        newest = folder.newest()
        assert newest is not None
        results.append(told.result)
        vectors.append(newest.read().weights)
        assert json.loads(folder.summary_file.read_text())["weights"] == told.result["weights"]
    first, second = results
    assert np.array_equal(*vectors), "to the last bit"
    assert first["weights"] == second["weights"] != ""
    assert [first[key] for key in ("frames", "episodes", "mean_return")] == [
        second[key] for key in ("frames", "episodes", "mean_return")
    ]
