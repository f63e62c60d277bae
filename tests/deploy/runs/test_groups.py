from __future__ import annotations

from pathlib import Path

import pytest

from deploy.runs.groups import groups
from deploy.runs.table import read_table
from tests.helpers.run_folders import run_folder


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        ([("seed=1",), ("seed=2",)], {"a3c": [1, 2]}),
        ([("algorithm.kind=ppo",), ()], {"a3c": [0], "ppo": [0]}),
        (
            [
                ("seed=1", "optimizer.learning_rate=0.01"),
                ("seed=2", "optimizer.learning_rate=0.01"),
                ("optimizer.learning_rate=0.02",),
            ],
            {"a3c, optimizer.learning_rate=0.01": [1, 2], "a3c, optimizer.learning_rate=0.02": [0]},
        ),
        ([("limits.frames=10",), ("limits.frames=20",)], {"a3c, limits.frames=10": [0], "a3c, limits.frames=20": [0]}),
        (
            [("limits.frames=10", "network.lstm=8"), ("limits.frames=20",)],
            {"a3c, network.lstm=8": [0], "a3c, network.lstm=0": [0]},
        ),
    ],
)
def test_runs_that_differ_in_their_seed_alone_are_a_group(
    runs: list[tuple[str, ...]], found: dict[str, list[int]], tmp_path: Path
) -> None:
    for number, assignments in enumerate(runs):
        run_folder(tmp_path / str(number), *assignments)
    made = {group.name: [run.row.seed for run in group.runs] for group in groups(read_table([tmp_path]).runs)}
    assert made == found


def test_an_environment_has_its_own(tmp_path: Path) -> None:
    run_folder(tmp_path / "a")
    run_folder(tmp_path / "b", "environment.id=Acrobot-v1")
    assert [(group.env, group.name) for group in groups(read_table([tmp_path]).runs)] == [
        ("Acrobot-v1", "a3c"),
        ("CartPole-v1", "a3c"),
    ]
