"""The command line: what each command hands on, and what it says; the parts that work are stand-ins."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from common.errors import ConfigurationError, UnavailableError
from common.run.folder import RunFolder
from common.settings.toml import parse
from deploy.cli.command import _SECTIONS, cli, main
from deploy.cli.doctor.finding import Finding
from tests.helpers.command_line import AT, a3cd


def test_help_names_every_command() -> None:
    shown = a3cd("-h")
    assert shown.exit_code == 0
    for command in (
        *("train", "learner", "actor", "launcher", "status", "evaluate", "play", "record", "presets", "check-config"),
        *("doctor", "bench", "curve", "stop", "checkpoint", "scale"),
    ):
        assert f"\n  {command}" in shown.output
        assert a3cd(command, "--help").exit_code == 0


def test_help_shows_each_command_in_one_section() -> None:
    named = sorted(name for names in _SECTIONS.values() for name in names)
    assert named == sorted(cli.list_commands(click.Context(cli)))
    assert "\nA run that goes on:\n  status " in a3cd("--help").output


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert a3cd("--version").output.startswith("a3cd, version ")
    monkeypatch.setattr("sys.argv", ["a3cd", "--version"])
    monkeypatch.setattr("deploy.cli.command.leave", sys.exit)
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 0
    assert capsys.readouterr().out.startswith("a3cd, version ")


def test_a_start_without_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    def use(**_: Any) -> None:
        assert sys.stdin.read() == ""
        print("nowhere", flush=True)
        print("nowhere", file=sys.stderr, flush=True)

    streams = ("stdin", "stdout", "stderr")
    for name in streams:
        monkeypatch.setattr(sys, name, None)
    monkeypatch.setattr("deploy.cli.command.cli", use)
    main()
    for name in streams:
        getattr(sys, name).close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a file that is always full")
@pytest.mark.parametrize("buffered", ["", "1"])
def test_a_full_disk_is_named(buffered: str) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command, environment = [sys.executable, "-m", "a3cd", "presets"], os.environ | {"PYTHONUNBUFFERED": buffered}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, text=True, check=False)
    assert done.returncode == 75
    assert done.stderr.endswith("standard output cannot be written: No space left on device\n")
    assert done.stderr.count("\n") == 1


def test_other_errors_of_files_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("deploy.cli.command.cli", fail)
    with pytest.raises(FileNotFoundError):
        main()


def test_a_locale_without_the_characters_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out, encoding="latin-1"))
    monkeypatch.setattr("deploy.cli.command.cli", lambda **_: print("a –", flush=True))
    main()
    assert out.getvalue() == b"a ?\n"


def test_without_torch_the_cure_is_named(stand: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stand("deploy.cli.train.train", ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert a3cd("train", "CartPole-v1", "--run-dir", tmp_path / "x").exit_code == 78
    assert "a3cd train needs torch, which is not installed here: pip install 'a3cd[torch]'" in caplog.text
    stand("deploy.cli.train.train", ModuleNotFoundError("No module named 'other'", name="other"))
    assert isinstance(a3cd("train", "CartPole-v1", "--run-dir", tmp_path / "x").exception, ModuleNotFoundError)


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


def test_status(stand: Any) -> None:
    run = stand("deploy.cli.view.report.run")
    assert a3cd("status", "localhost", "--json", "--timeout", 2).exit_code == 0
    assert (run.arguments, run.options) == ((AT,), {"watch": False, "as_json": True, "timeout": 2.0})


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
    [
        (ConfigurationError("it cannot be"), 78),
        (UnavailableError("it is not there"), 75),
        (PermissionError(13, "Permission denied", "/root/keys"), 75),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_are_one_line_and_an_exit_code(stand: Any, error: BaseException, code: int) -> None:
    stand("deploy.cli.view.report.run", error)
    result = a3cd("status", "localhost")
    assert result.exit_code == code
    assert result.stdout == ""
    assert (f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)) in result.stderr
    assert result.stderr.count("\n") <= 1


def test_an_error_of_our_own_is_not_hidden(stand: Any) -> None:
    stand("deploy.cli.view.report.run", ZeroDivisionError())
    assert isinstance(a3cd("status", "localhost").exception, ZeroDivisionError)
