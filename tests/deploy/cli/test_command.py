"""The command line: what each command hands on, and what it says; the parts that work are stand-ins."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actor.agent.evaluation import Evaluation
from common.errors import ConfigurationError, UnavailableError
from common.host.addresses import Address
from common.run.folder import RunFolder
from common.settings.sections import Settings
from common.settings.toml import parse
from deploy.cli.command import main
from deploy.cli.doctor.finding import Finding
from deploy.cli.request import TrainRequest
from tests.helpers.command_line import AT, a3cd


def test_help_names_every_command() -> None:
    shown = a3cd("-h")
    assert shown.exit_code == 0
    for command in (
        *("train", "learner", "actor", "launcher", "status", "evaluate", "play", "record", "presets", "check-config"),
        *("doctor", "bench", "curve"),
    ):
        assert f"\n  {command}" in shown.output
        assert a3cd(command, "--help").exit_code == 0


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert a3cd("--version").output.startswith("a3cd, version ")
    monkeypatch.setattr("sys.argv", ["a3cd", "--version"])
    monkeypatch.setattr("deploy.cli.command.leave", sys.exit)
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 0
    assert capsys.readouterr().out.startswith("a3cd, version ")


def test_train(stand: Any, tmp_path: Path) -> None:
    run = stand("deploy.cli.train.train", 143)
    result = a3cd("train", "CartPole-v1", "--actors", "2..4", "--set", "seed=3", "--run-dir", tmp_path / "x", "--json")
    assert result.exit_code == 143
    (request,) = run.arguments
    assert isinstance(request, TrainRequest)
    assert (request.settings.seed, request.slots, request.run_dir) == (3, 4, tmp_path / "x")
    assert run.options == {"as_json": True}


def test_without_torch_the_cure_is_named(stand: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stand("deploy.cli.train.train", ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert a3cd("train", "CartPole-v1", "--run-dir", tmp_path / "x").exit_code == 78
    assert "a3cd train needs torch, which is not installed here: pip install 'a3cd[torch]'" in caplog.text
    stand("deploy.cli.train.train", ModuleNotFoundError("No module named 'other'", name="other"))
    assert isinstance(a3cd("train", "CartPole-v1", "--run-dir", tmp_path / "x").exception, ModuleNotFoundError)


def test_train_what() -> None:
    result = a3cd("train", "--actors", 2)
    assert result.exit_code == 2
    assert "train what?" in result.output and "FlappyBird-v0" in result.output and "a3cd presets" in result.output


def test_learner(stand: Any, tmp_path: Path) -> None:
    run = stand("learner.daemon.run", 75)
    config = tmp_path / "run.toml"
    config.write_text("seed = 1\n[optimizer]\nlearning_rate = 0.5")
    result = a3cd(
        "learner",
        "--config",
        config,
        "--set",
        "seed=2",
        "--bind",
        "tcp://*:0",
        "--insecure",
        "--run-dir",
        tmp_path / "x",
    )
    assert result.exit_code == 75
    assert run.arguments == (parse("seed = 2\n[optimizer]\nlearning_rate = 0.5", ""),)
    assert run.options == {
        "bind": Address("*", 0),
        "listeners": None,
        "run_dir": tmp_path / "x",
        "resume": False,
        "keys": None,
        "curve": True,
    }

    a3cd("learner", "--config", config, "--no-curve")
    assert run.options["curve"] is False
    assert run.options["bind"] == Address("127.0.0.1", 5555)
    assert str(run.options["run_dir"]).startswith(str(Path("runs", "CartPole-v1-")))

    a3cd("learner", "--resume", "--run-dir", tmp_path)
    assert run.arguments == (None,)
    assert run.options["resume"] is True


@pytest.mark.parametrize("text", ["seed = 3", ""])
def test_a_learner_whose_settings_come_when_they_are_good(stand: Any, tmp_path: Path, text: str) -> None:
    """It loads its libraries first; that nothing comes means that the run may not begin."""
    stand("learner.daemon.load")
    run = stand("learner.daemon.run")
    source, end = os.pipe()
    os.write(end, text.encode())
    os.close(end)
    result = a3cd("learner", "--settings", source, "--run-dir", tmp_path / "x")
    assert result.exit_code == 0
    assert run.arguments == ((parse(text, ""),) if text else ())


def test_a_learner_that_begins_a_run_or_goes_on_with_it(stand: Any, tmp_path: Path) -> None:
    run = stand("learner.daemon.run")
    config = tmp_path / "run.toml"
    config.touch()
    for folder in (tmp_path / "new", tmp_path):  # an empty folder may have been made for it
        a3cd("learner", "--config", config, "--resume-or-create", "--run-dir", folder)
        assert run.options["resume"] is False
    (tmp_path / "run.json").touch()
    a3cd("learner", "--config", config, "--resume-or-create", "--run-dir", tmp_path)
    assert run.options["resume"] is True


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "a learner needs --config FILE"),
        (["--resume"], "--resume needs --run-dir"),
        (["--resume-or-create"], "--resume needs --run-dir"),
        (["--resume-or-create", "--run-dir", "x"], "a learner needs --config FILE"),
        (["--resume", "--run-dir", "x", "--set", "seed=1"], "--set needs --config"),
        (["--bind", "nonsense:::"], "is no address"),
        (["--nonsense"], "No such option"),
    ],
)
def test_a_learner_misused(stand: Any, arguments: list[str], text: str) -> None:
    stand("learner.daemon.run", AssertionError())
    result = a3cd("learner", *arguments)
    assert result.exit_code == 2
    assert text in result.output


def test_actor_and_launcher(stand: Any) -> None:
    run = stand("actor.daemon.run", 130)
    assert (
        a3cd("actor", "tcp://localhost:5555", "--name", "a", "--launcher", "here", "--allow-module", "envs").exit_code
        == 130
    )
    assert (run.arguments, run.options) == ((AT,), {"name": "a", "launcher": "here", "modules": ("envs",), "wait": 0.0})
    start = stand("deploy.launcher.shell.run", 78)
    assert a3cd("launcher", "localhost", "--slots", 4, "--name", "here", "--prestart", 2, "--wait", 60).exit_code == 78
    assert start.arguments[0] == AT
    assert start.options == {"name": "here", "prestart": 2, "wait": 60.0}
    assert a3cd("launcher", "localhost").exit_code == 2
    assert a3cd("launcher", "localhost", "--slots", 0).exit_code == 2
    assert a3cd("actor", "tcp://*:5555").exit_code == 2


@pytest.mark.parametrize("command", ["learner", "actor", "launcher"])
def test_daemons_end_with_their_parent_when_told_to(stand: Any, command: str, tmp_path: Path) -> None:
    watch = stand("common.host.service.lifeline.watch", None)
    for name in ("learner.daemon.run", "actor.daemon.run", "deploy.launcher.shell.run"):
        stand(name)
    arguments = {
        "learner": ["--resume", "--run-dir", tmp_path],
        "actor": ["localhost"],
        "launcher": ["localhost", "--slots", 1],
    }[command]
    watch.options = None
    assert a3cd(command, *arguments).exit_code == 0
    assert watch.options is None
    assert a3cd(command, *arguments, "--lifeline").exit_code == 0
    assert watch.options == {}


def test_defaults_are_the_settings_own(stand: Any, tmp_path: Path) -> None:
    run = stand("learner.daemon.run")
    config = tmp_path / "run.toml"
    config.write_text("")
    a3cd("learner", "--config", config, "--run-dir", tmp_path / "x")
    assert run.arguments == (Settings(),)


def test_status(stand: Any) -> None:
    run = stand("deploy.cli.view.report.run")
    assert a3cd("status", "localhost", "--json", "--timeout", 2).exit_code == 0
    assert (run.arguments, run.options) == ((AT,), {"watch": False, "as_json": True, "timeout": 2.0})


EVALUATION = Evaluation(
    env="CartPole-v1",
    version=7,
    sampled=False,
    seed=3,
    episodes=2,
    mean=150.0,
    low=120.0,
    high=180.5,
    std=50.0,
    median=140.0,
    interquartile_mean=145.25,
    minimum=100.0,
    maximum=200.0,
    length_mean=150.0,
    capped=1,
    max_steps=200,
    returns=[100.0, 200.0],
    lengths=[100, 200],
)


def test_evaluate(stand: Any, tmp_path: Path) -> None:
    evaluate = stand("actor.agent.evaluation.evaluate", EVALUATION)
    result = a3cd("evaluate", tmp_path, "--episodes", 2, "--seed", 3, "--newest", "--max-steps", 200, "--json")
    assert json.loads(result.output)["returns"] == [100.0, 200.0]
    assert evaluate.arguments == (tmp_path,)
    assert evaluate.options == {
        "episodes": 2,
        "sampled": None,
        "seed": 3,
        "max_steps": 200,
        "checkpoint": "newest",
    }
    text = a3cd("evaluate", tmp_path, "--sampled").output
    assert (evaluate.options["sampled"], evaluate.options["checkpoint"]) == (True, "best")
    assert text == (
        "CartPole-v1, weights of version 7, best actions: mean return 150.00 (95 % interval by Student's t: 120.00 to "
        "180.50), median 140.00, interquartile mean 145.25, from 100 to 200 over 2 episodes of 150 steps on average, "
        "1 cut off at 200 steps; if nothing happens in them, try --sampled, which draws actions as in training\n"
    )
    a3cd("evaluate", tmp_path, "--greedy")
    assert evaluate.options["sampled"] is False
    one = msgspec.structs.replace(EVALUATION, episodes=1, low=None, high=None)
    stand("actor.agent.evaluation.evaluate", one)
    assert "mean return 150.00, median 140.00" in a3cd("evaluate", tmp_path).output


def test_play_and_record(stand: Any, tmp_path: Path) -> None:
    play = stand("actor.agent.window.play", None)
    assert a3cd("play", tmp_path, "--seed", 5).exit_code == 0
    assert (play.arguments, play.options) == ((tmp_path,), {"sampled": None, "seed": 5, "checkpoint": "best"})
    record = stand("actor.agent.recording.record", None)
    result = a3cd("record", tmp_path, "--out", tmp_path / "x.gif", "--episodes", 3)
    assert result.output == f"{tmp_path / 'x.gif'}\n"
    assert record.arguments == (tmp_path, tmp_path / "x.gif")
    assert record.options["episodes"] == 3
    assert a3cd("record", tmp_path).exit_code == 2


def test_curve(tmp_path: Path) -> None:
    assert a3cd("curve", tmp_path).exit_code == 78, "it holds no run"
    folder = RunFolder(tmp_path)
    (tmp_path / "run.json").write_text('{"run": "0123456789abcdef", "created": "", "epoch": 1, "a3cd": "0.2.0"}')
    (tmp_path / "settings.toml").write_text("")
    folder.metrics_file.write_text('{"frames": 100, "seconds": 1.0, "mean_return": 20.0}\n')
    result = a3cd("curve", tmp_path)
    assert (result.exit_code, result.output) == (0, f"{folder.curve}\n")
    assert folder.curve.read_bytes().startswith(b"\x89PNG")
    folder.curve.unlink()
    folder.curve.mkdir()
    assert a3cd("curve", tmp_path).exit_code == 75


def test_longest_episodes_and_recordings(stand: Any, tmp_path: Path) -> None:
    """The limits are the parts' own unless the command line says otherwise; the help names them."""
    evaluate = stand("actor.agent.evaluation.evaluate", EVALUATION)
    a3cd("evaluate", tmp_path)
    assert evaluate.options["max_steps"] == 27_000
    assert "default: 27000" in a3cd("evaluate", "--help").output
    record = stand("actor.agent.recording.record", None)
    a3cd("record", tmp_path, "--out", tmp_path / "x.gif")
    assert record.options["max_steps"] is None
    a3cd("record", tmp_path, "--out", tmp_path / "x.gif", "--max-steps", 7)
    assert record.options["max_steps"] == 7
    assert "default: 1000 for .gif, else 27000" in " ".join(a3cd("record", "--help").output.split())


def test_presets() -> None:
    listed = a3cd("presets").output.splitlines()
    assert any(line.startswith("CartPole-v1  ") for line in listed)
    shown = a3cd("presets", "show", "CartPole-v1").output
    assert parse(shown, "").environment.id == "CartPole-v1"
    assert a3cd("presets", "show", "Nonsense-v1").exit_code == 78
    assert "did you mean CartPole-v1?" in a3cd("presets", "show", "CartPole").stderr


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("warn", 0), ("bad", 78)])
def test_doctor(stand: Any, state: Any, code: int) -> None:
    stand("deploy.cli.doctor.software.look", [Finding("python", state, "3.11")])
    machine = stand("deploy.cli.doctor.machine.look", [Finding("disk", "ok", "1 TB free")])
    connection = stand("deploy.cli.doctor.connectivity.look", [Finding("learner", "ok", "answers")])
    result = a3cd("doctor", "--port", 6000)
    assert result.exit_code == code
    assert "python" in result.output and "disk" in result.output
    assert machine.arguments == (6000, Path("runs"))
    assert connection.arguments == ()
    assert "answers" in a3cd("doctor", "--learner", "localhost").output
    assert connection.arguments == (AT,)


def test_doctor_checks_the_machine_where_there_is_no_way_in(stand: Any, tmp_path: Path) -> None:
    stand("deploy.cli.doctor.software.look", [Finding("python", "ok", "3.11")])
    stand("deploy.cli.doctor.machine.look", [Finding("disk", "ok", "1 TB free")])
    connection = stand("deploy.cli.doctor.connectivity.look", AssertionError())
    result = a3cd("doctor", "--learner", "tcp://gpu-box:5555", "--keys", tmp_path)
    assert result.exit_code == 78
    shown = " ".join(result.output.split())
    assert "1 TB free" in shown and "BAD way in no credential for the learner at" in shown
    assert connection.arguments == ()


def test_bench_exchange(stand: Any) -> None:
    run = stand("deploy.cli.exchange_bench.exchange", 3)
    assert a3cd("bench", "exchange", "CartPole-v1", "--actors", 2, "--algorithm", "ppo", "--json").exit_code == 3
    assert run.arguments == ("CartPole-v1",)
    chosen = {"actors": (2, 2), "algorithm": "ppo", "network": None, "assignments": ()}
    assert run.options == {"seconds": 20.0, "also_actions": False, "as_json": True, **chosen}
    assert a3cd("bench", "exchange", "CartPole-v1", "--seconds", 1).exit_code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigurationError("it cannot be"), 78), (UnavailableError("it is not there"), 75), (KeyboardInterrupt(), 130)],
)
def test_errors_are_one_line_and_an_exit_code(stand: Any, error: BaseException, code: int) -> None:
    stand("deploy.cli.view.report.run", error)
    result = a3cd("status", "localhost")
    assert result.exit_code == code
    assert result.stdout == ""
    assert str(error) in result.stderr
    assert result.stderr.count("\n") <= 1


def test_an_error_of_our_own_is_not_hidden(stand: Any) -> None:
    stand("deploy.cli.view.report.run", ZeroDivisionError())
    assert isinstance(a3cd("status", "localhost").exception, ZeroDivisionError)
