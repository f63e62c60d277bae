from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from common.errors import EXIT_CONFIGURATION, EXIT_TRY_LATER
from common.run.folder import RunFolder
from tests.helpers.command_line import a3cd

RUN = """
environment = { id = "CartPole-v1", num_envs = 2 }
network = { hidden = [8] }
limits = { frames = 500 }
"""


def run_file(folder: Path, text: str = RUN) -> Path:
    file = folder / "run.toml"
    file.write_text(text)
    return file


def test_a_run_in_virtual_time_ends_with_a_summary_and_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = ("--world-set", "costs.batch_step=0.02", "--seed", 3, "--json", "--run-dir", folder)
    result = a3cd("simulate", run_file(tmp_path), "--actors", 2, *words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["env"], told["seed"], told["actors_peak"], told["state"]) == ("CartPole-v1", 3, 2, "finished")
    assert told["frames"] >= 500
    assert told["events"] > 100
    assert json.loads(RunFolder(folder).summary_file.read_bytes())["frames"] == told["frames"]
    assert RunFolder(folder).curve.exists()


def test_what_an_environment_prints_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reset = CartPoleEnv.reset

    def loud(*given: Any, **named: Any) -> Any:
        print("the environment says hello")
        return reset(*given, **named)

    monkeypatch.setattr(CartPoleEnv, "reset", loud)
    result = a3cd("simulate", run_file(tmp_path), "--actors", 1, "--json", "--run-dir", tmp_path / "run")
    assert json.loads(result.stdout)["state"] == "finished"
    assert "the environment says hello" in result.stderr


def test_for_a_person_it_says_how_long_it_really_took(tmp_path: Path) -> None:
    result = a3cd("simulate", run_file(tmp_path), "--actors", "1", "--run-dir", tmp_path / "my run")
    assert result.exit_code == 0, result.output
    assert "virtual s (finished), simulated in" in result.stdout
    assert f"  evaluate  a3cd evaluate '{tmp_path}/my run'\n" in result.stdout


def test_a_folder_with_the_name_of_a_preset_is_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "CartPole-v1").mkdir()
    result = a3cd("simulate", "CartPole-v1", "--frames", 500, "--actors", 1, "--json", "--run-dir", "run")
    assert json.loads(result.stdout)["env"] == "CartPole-v1"


def test_a_world_comes_from_a_file(tmp_path: Path) -> None:
    world = tmp_path / "world.toml"
    world.write_text('[[hosts]]\nname = "lab"\nslots = 3\nlocal = false\n')
    words = ("--world", world, "--set", "scaling.minimum=3", "--json", "--run-dir", tmp_path / "run")
    result = a3cd("simulate", run_file(tmp_path), *words)
    assert json.loads(result.stdout)["actors_peak"] == 3


def test_what_is_wrong_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    for words in (["--world-set", "costs.no=1"], ["--set", "optimizer.no=1"], ["--sweep", "actors"], ["--seeds", "x"]):
        result = a3cd("simulate", run_file(tmp_path), "--run-dir", tmp_path / "run", *words)
        assert result.exit_code == EXIT_CONFIGURATION, result.output
        assert not (tmp_path / "run").exists()


def test_jobs_of_one_simulation(tmp_path: Path) -> None:
    result = a3cd("simulate", run_file(tmp_path), "--jobs", 2, "--run-dir", tmp_path / "run")
    assert result.exit_code == 2
    assert "--jobs is for many simulations" in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_goal_by_evaluation_is_refused(tmp_path: Path) -> None:
    words = ("--until-return", 400, "--set", 'limits.until_return_of="evaluation"', "--run-dir", tmp_path / "run")
    result = a3cd("simulate", run_file(tmp_path, RUN + "evaluation.episodes = 5\n"), *words)
    assert result.exit_code == EXIT_CONFIGURATION, result.output
    assert "nobody evaluates in a simulation" in result.output
    assert not (tmp_path / "run").exists()


def test_settings_that_no_learner_can_begin_with_leave_no_folder(tmp_path: Path) -> None:
    result = a3cd("simulate", run_file(tmp_path, 'environment.id = "NoSuch-v0"'), "--run-dir", tmp_path / "run")
    assert result.exit_code == EXIT_CONFIGURATION
    assert not (tmp_path / "run").exists()


def test_a_run_that_no_actor_can_play_in_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.cluster.Cluster.hopeless", "they crash")
    result = a3cd("simulate", run_file(tmp_path), "--run-dir", tmp_path / "run")
    assert result.exit_code == EXIT_TRY_LATER
