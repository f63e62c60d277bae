from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from common.errors import A3cdError, ConfigurationError, UnavailableError
from common.host.addresses import DEFAULT_PORT
from common.run.folder import RunFolder
from common.run.status import FleetStatus
from common.settings.sections import Settings
from common.settings.toml import dump, override, read
from deploy.cli import preflight
from deploy.cli.supervising import summary_of, supervise
from learner.record.run_lock import create
from tests.helpers.broken_output import BrokenOutput
from tests.helpers.stage import Stage, ends, planned, write_summary
from tests.helpers.status import run_status


def test_a_training_that_lasts_gets_an_evaluator(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def later() -> None:
        assert len(stage.children) == 2, "not at once"
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 1e6)

    stage.looks = [run_status, later, run_status, ends(stage, 0)]
    supervise(planned("games:Car-v0", run_dir=tmp_path / "x"))
    evaluator = stage.children[2]
    assert evaluator.arguments[:3] == ("evaluator", str(stage.address), "--insecure")
    assert (evaluator.option("--nice"), evaluator.option("--allow-module")) == ("19", "games")


def test_modules_that_the_settings_name_are_allowed_to_the_launcher(stage: Stage, tmp_path: Path) -> None:
    for env, network, modules in (
        ("CartPole-v1", "nets.small:Small", ["nets.small"]),
        ("games:Car-v0", "nets:Small", ["games", "nets"]),
        ("games:Car-v0", "games:Small", ["games"]),
        ("games:Car-v0", "dense", ["games"]),
    ):
        stage.children.clear()
        stage.looks = [ends(stage, 0)]
        supervise(planned(env, network=network, run_dir=tmp_path / "x"))
        expected = [word for module in modules for word in ("--allow-module", module)]
        assert list(stage.launcher.arguments[9:]) == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on(stage: Stage, tmp_path: Path, number: int) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), number)

    stage.looks = [interrupt]
    assert supervise(planned(run_dir=tmp_path / "x"))[0] == 128 + number
    assert stage.learner.asked
    assert stage.launcher.asked


def test_a_learner_that_is_killed_before_it_has_saved_the_run_is_told(stage: Stage, tmp_path: Path) -> None:
    def kill() -> None:
        stage.learner.exit_code = 137

    def interrupt() -> None:
        stage.when_asked = kill
        os.kill(os.getpid(), signal.SIGINT)

    stage.looks = [interrupt]
    with pytest.raises(UnavailableError, match=r"the learner ended with exit code 137; .*there is no checkpoint"):
        supervise(planned(run_dir=tmp_path / "x"))


@pytest.mark.parametrize(
    ("exit_code", "kind"),
    [(78, ConfigurationError), (2, ConfigurationError), (75, UnavailableError), (1, UnavailableError)],
)
def test_without_actors_there_is_no_training(
    stage: Stage,
    fleet: Callable[..., FleetStatus],
    tmp_path: Path,
    exit_code: int,
    kind: type[A3cdError],
) -> None:
    gave_up = fleet(gave_up=True, exit_code=exit_code, why="it is not installed")
    alone = run_status(actors_now=0, launchers=[gave_up])
    stage.looks = [
        lambda: run_status(actors_now=1, launchers=[gave_up]),
        lambda: run_status(actors_now=0, launchers=[fleet()]),
    ]
    stage.looks += [lambda: run_status(actors_now=0), lambda: alone]
    with pytest.raises(kind, match="no actor can be started: it is not installed"):
        supervise(planned(run_dir=tmp_path / "x"))
    assert stage.looks == []
    assert stage.learner.asked
    assert stage.launcher.asked


def test_a_launcher_that_dies_ends_the_training(stage: Stage, tmp_path: Path) -> None:
    def die() -> None:
        stage.launcher.exit_code = 137

    stage.looks = [die]
    with pytest.raises(
        UnavailableError, match=r"launcher ended with exit code 137; go on with --resume .*no checkpoint"
    ):
        supervise(planned(run_dir=tmp_path / "x"))
    assert stage.learner.asked


def test_a_learner_that_dies_ends_the_training(stage: Stage, tmp_path: Path) -> None:
    stage.looks = [ends(stage, 137)]
    with pytest.raises(UnavailableError, match="the learner ended with exit code 137"):
        supervise(planned(run_dir=tmp_path / "x"))
    assert stage.launcher.asked


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EPIPE])
def test_a_stderr_that_takes_nothing_costs_nothing(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, terminal: bool
) -> None:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "80"), ("LINES", "24")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", BrokenOutput(number, terminal=terminal))
    stage.looks = [run_status, run_status, ends(stage, 0, run_status(state="reached"))]
    code, told = supervise(planned(run_dir=tmp_path / "x"))
    assert (code, told["state"]) == (0, "reached")
    assert not stage.learner.asked


def test_an_error_of_our_own_ends_the_run_with_a_checkpoint(stage: Stage, tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    stage.looks = [fail]
    with pytest.raises(RuntimeError, match="a bug"):
        supervise(planned(run_dir=tmp_path / "x"))
    assert stage.learner.asked and stage.launcher.asked, "as by a signal"
    assert stage.learner.exit_code is not None, "it has been waited for"


def test_trackers_are_told_of_a_run_that_has_begun(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.cli.tracking.END_SECONDS", 0.0)
    begun: list[int] = []

    def look() -> None:
        begun.append(len(stage.children) - 2)

    stage.looks = [look, run_status, look, run_status, look, ends(stage, 0, run_status(state="reached"))]
    assert supervise(planned(run_dir=tmp_path / "x", trackers=("wandb", "mlflow")))[0] == 0
    assert begun == [0, 2, 2]
    assert stage.children[2].arguments == ("track", str(tmp_path / "x"), "--to", "wandb")


def test_a_run_is_resumed(stage: Stage, tmp_path: Path) -> None:
    create(tmp_path, override(Settings(), ["seed=9"])).close()
    stage.looks = [ends(stage, 0)]
    supervise(planned(run_dir=tmp_path, resume=True))
    assert "--resume" in stage.learner.arguments
    assert stage.settings.read() == dump(read(RunFolder(tmp_path).settings_file))


def test_nothing_begins_that_looks_wrong(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(settings: Settings, folder: RunFolder, resume: bool) -> None:
        assert (settings.seed, folder.path, resume) == (7, tmp_path, False)
        raise ConfigurationError("it cannot be")

    monkeypatch.setattr(preflight, "check", check)
    with pytest.raises(ConfigurationError, match="it cannot be"):
        supervise(planned(run_dir=tmp_path, seed=7))
    assert (len(stage.children), stage.settings.read()) == (1, ""), "the learner may not begin"


def test_the_learners_reason_is_the_last_line(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        stage.learner_says("error: it cannot be")
        ends(stage, 78)()

    stage.looks = [refuse]
    stage.when_asked = lambda: stage.launcher_says("launcher leaving")
    supervise(planned(run_dir=tmp_path / "x"))
    assert stage.launcher.asked
    assert capsys.readouterr().err.splitlines()[-1] == "error: it cannot be"


def test_who_waits_for_a_learner_is_not_heard_before_it_answers(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for answers in (False, True):
        stage.children.clear()
        stage.looks = [run_status] if answers else []
        stage.looks += [ends(stage, 78)]
        stage.launcher_starts = lambda: stage.launcher_says("warning: no learner")
        supervise(planned(run_dir=tmp_path / str(answers)))
        assert ("warning: no learner" in capsys.readouterr().err) is answers


def test_other_ports_where_the_usual_ones_are_in_use(stage: Stage, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # somebody else uses it: as good
            stack.enter_context(socket.create_server(("127.0.0.1", DEFAULT_PORT + 1)))
        stage.looks = [ends(stage, 0)]
        supervise(planned(run_dir=tmp_path / "x"))
    assert stage.address.host == "127.0.0.1"
    assert stage.address.port != DEFAULT_PORT


def test_a_summary_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert summary_of(tmp_path / "nothing") == {}
    write_summary(tmp_path, run_status())
    assert summary_of(tmp_path)["mean_return"] == 87.3
    RunFolder(tmp_path).summary_file.write_bytes(b"\xff")
    assert summary_of(tmp_path) == {}
