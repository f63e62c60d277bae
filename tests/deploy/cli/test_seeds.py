"""Which trainings `--seeds` stands for. (As processes: tests/system/test_seeds.py.)"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from common.errors import EXIT_CONFIGURATION, EXIT_DONE
from deploy.cli import seeds
from deploy.cli.seeds import One, show_plan, show_results, without
from tests.helpers.broken_output import BrokenOutput
from tests.helpers.command_line import a3cd
from tests.helpers.run_folders import run_folder

ENV = "CartPole-v1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(*words: str) -> list[dict[str, object]]:
    result = a3cd("train", *words, "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, object]] = json.loads(result.stdout)
    return found


def test_each_is_the_same_command_with_a_seed_and_a_folder(folder: Path) -> None:
    options = ("--frames", "2000", "--set=network.hidden=[8]", "--actors", "1")
    found = planned(ENV, "--seeds=3,1", *options, "--run-dir", "mine")
    assert [one["command"] for one in found] == [
        ["a3cd", "train", ENV, *options, "--seed", seed, "--run-dir", f"mine/seed-{seed}"] for seed in "31"
    ]
    assert [(one["seed"], one["run_dir"], one["exit_code"]) for one in found] == [
        (3, "mine/seed-3", None),
        (1, "mine/seed-1", None),
    ]
    assert not list(folder.iterdir())


def test_without_a_folder_it_is_named_as_that_of_a_run(folder: Path) -> None:
    first, second = (Path(str(one["run_dir"])) for one in planned(ENV, "--seeds", "0..1"))
    assert first.parent == second.parent
    assert first.parent.name.startswith(f"{ENV}-")
    assert (first.parents[1], first.name, second.name) == (Path("runs"), "seed-0", "seed-1")


def test_those_that_have_begun_go_on_with_their_own_settings(folder: Path) -> None:
    run_folder(Path("mine/seed-1"), "seed=1")
    Path("mine/run.toml").write_text(f'environment.id = "{ENV}"')
    found = planned("--config", "mine/run.toml", "--seeds", "0..1", "--run-dir", "mine", "--resume")
    assert [one["command"] for one in found] == [
        ["a3cd", "train", "--config", "mine/run.toml", "--seed", "0", "--run-dir", "mine/seed-0"],
        ["a3cd", "train", "--seed", "1", "--run-dir", "mine/seed-1", "--resume"],
    ]
    (only,) = planned("--seeds", "1", "--run-dir", "mine", "--resume")
    assert only["command"] == ["a3cd", "train", "--seed", "1", "--run-dir", "mine/seed-1", "--resume"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((ENV, "--seeds", "0,1", "--seed", "2"), "--seeds 0,1 goes without --seed"),
        ((ENV, "--seeds", "0,1", "--set", "seed=2"), "--seeds 0,1 goes without --set seed="),
        ((ENV, "--seeds", "1..0"), "--seeds 1..0: must be a range"),
        ((ENV, "--seeds", "-1"), "seed = -1: must be a whole number"),
        (("CartPole-v9", "--seeds", "0,1"), "CartPole-v9 does not exist"),
        ((ENV, "--seeds", "0,1", "--set", "x=2"), "x is no setting"),
        ((ENV, "--seeds", "0,1", "--run-dir", "mine"), "mine/seed-1: holds run "),
        ((ENV, "--seeds", "0,1", "--resume"), "--resume needs --run-dir: the folder of the runs"),
        ((ENV, "--seeds", "0,1", "--resume", "--run-dir", "none"), "none: there is no such folder"),
        ((ENV, "--seeds", "0,1", "--resume", "--run-dir", "mine/seed-1"), "mine/seed-1: holds a run itself"),
        (("--seeds", "0,1", "--resume", "--run-dir", "mine"), "mine/seed-0: this run has not begun; name the env"),
        (("Acrobot-v1", "--seeds", "1", "--resume", "--run-dir", "mine"), "the run is of CartPole-v1"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(folder: Path, words: tuple[str, ...], why: str) -> None:
    run_folder(Path("mine/seed-1"), "seed=1")
    result = a3cd("train", *words)
    assert result.exit_code == EXIT_CONFIGURATION
    (line,) = (line for line in result.stderr.splitlines() if " error: " in line)
    assert why in line


def test_options_are_taken_out_with_their_values() -> None:
    words = ["A", "--seeds", "0..1", "--json", "--set", "x=--json", "--seeds=3", "--run-dir"]
    assert without(words, {"--seeds": True, "--json": False, "--run-dir": True}) == ["A", "--set", "x=--json"]


def every() -> list[One]:
    run_folder(Path("mine/seed-0"), "seed=0", summary={"mean_return": 100.0})
    run_folder(Path("mine/seed-1"), "seed=1", summary={"mean_return": 110.0, "state": "failed"})
    one, other = (One(seed, Path(f"mine/seed-{seed}"), ["train"], code) for seed, code in ((0, EXIT_DONE), (1, 75)))
    return [one, other, One(2, Path("mine/seed-2"), ["train"])]


def test_what_there_is_is_shown_as_by_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_results(every(), [ENV, "--seeds", "0..2", "--run-dir=mine"], as_json=False)
    shown = capsys.readouterr().out
    assert shown.startswith(a3cd("runs", "mine").stdout)
    assert "105.0 (" in shown
    assert shown.splitlines()[-3:] == [
        "  seed 1: ended with exit code 75",
        "  seed 2: not begun",
        f"  go on     a3cd train {ENV} --seeds 0..2 --run-dir mine --resume",
    ]


def test_a_stderr_that_takes_nothing_ends_none_of_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(one: One, *_: object) -> None:
        one.exit_code = EXIT_DONE

    monkeypatch.setattr(seeds, "_run", run)
    monkeypatch.setattr(sys, "stderr", BrokenOutput())
    all_of_them = every()
    assert seeds.train(all_of_them, [ENV], as_json=False) == EXIT_DONE
    assert [one.exit_code for one in all_of_them] == [EXIT_DONE] * 3


def test_for_programs_it_is_a_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_results(every(), [], as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert [(one["seed"], one["exit_code"], one["run_dir"]) for one in told] == [
        (0, 0, "mine/seed-0"),
        (1, 75, "mine/seed-1"),
        (2, None, "mine/seed-2"),
    ]
    assert [one["run"] and (one["run"]["seed"], one["run"]["mean_return"]) for one in told] == [
        (0, 100.0),
        (1, 110.0),
        None,
    ]


def test_a_plan_is_shown_as_commands(capsys: pytest.CaptureFixture[str]) -> None:
    show_plan([One(0, Path("a b"), ["train", "--run-dir", "a b"])], as_json=False)
    assert capsys.readouterr().out.splitlines()[1] == "  a3cd train --run-dir 'a b'"
