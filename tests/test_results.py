"""The benchmark of presets to their end: its rows."""

from __future__ import annotations

import pytest

from benchmarks import results
from common.errors import EnvironmentMissingError
from common.rl.environments.base import Environments
from common.rl.environments.make import make as make_environments
from common.run import presets
from common.settings.sections import Environment


def test_a_row_has_medians_and_counts_the_seeds_that_solved_it() -> None:
    row = results.row("CartPole-v1", [(1000, 2.0, 500.0), (3000, 9.0, 470.0), (2000, 4.0, 480.0)])
    assert row[:3] == ["CartPole-v1", 2000, 4.0]
    assert row[3] == pytest.approx(483.333, abs=1e-3)
    assert row[4] == pytest.approx(4.302653 * 15.27525 / 3**0.5, rel=1e-4), "Student's t with two degrees of freedom"
    assert row[5:] == [470.0, "2 of 3"]


def test_one_seed_has_no_interval_and_some_tasks_no_threshold() -> None:
    assert results.row("FlappyBird-v0", [(1000, 2.0, 70.0)]) == ["FlappyBird-v0", 1000, 2.0, 70.0, None, 70.0, None]


def test_each_is_a_preset_of_that_name() -> None:
    assert set(results.SOLVED) <= set(presets.names())
    assert set(results.APART) <= set(results.SOLVED)


def test_what_is_missing_is_said_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(section: Environment, **_: object) -> Environments:
        if section.id == "HalfCheetah-v5":
            raise EnvironmentMissingError("environment HalfCheetah-v5 cannot be made: pip install 'a3cd[mujoco]'")
        return make_environments(section, num_envs=1, seed=0)

    monkeypatch.setattr(results, "make", make)
    monkeypatch.setattr("sys.argv", ["results", "--presets", "CartPole-v1,HalfCheetah-v5,CartPole-v9"])
    with pytest.raises(SystemExit, match="2"):
        results.main()
    said = capsys.readouterr()
    assert said.out == "", "nothing was measured"
    assert "error: environment HalfCheetah-v5 cannot be made: pip install 'a3cd[mujoco]'\n" in said.err
    assert "no preset is called 'CartPole-v9'" in said.err
    assert results.missing(["CartPole-v1"]) == ""
