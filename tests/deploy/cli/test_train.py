"""Training on this machine, with learner and launcher that exist on paper; tests/system has the real ones."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from common.errors import A3cdError, ConfigurationError, UnavailableError
from common.host.addresses import DEFAULT_PORT
from common.run.folder import CheckpointPaths, RunFolder
from common.run.status import FleetStatus, RunStatus, summary
from common.settings.sections import Settings
from common.settings.toml import dump, override, parse, read
from deploy.cli import preflight
from deploy.cli.request import TrainRequest, request
from deploy.cli.train import train
from learner.record.run_lock import create
from tests.helpers.stage import Stage
from tests.helpers.status import evaluation_status

NOTHING = dict.fromkeys(("algorithm", "network", "seed", "frames", "episodes", "seconds", "until_return"))


def planned(env: str = "CartPole-v1", **given: Any) -> TrainRequest:
    return request(env, **{**NOTHING, **given})


def ends(stage: Stage, code: int, written: RunStatus | None = None) -> Callable[[], None]:
    """The learner does, and has written its summary."""

    def end() -> None:
        stage.learner.exit_code = code
        if written is not None:
            write_summary(Path(stage.learner.option("--run-dir")), written)

    return end


def write_summary(run_dir: Path, status: RunStatus) -> None:
    folder = RunFolder(run_dir)
    folder.path.mkdir(exist_ok=True)
    folder.summary_file.write_bytes(msgspec.json.encode(summary(status)))


def a_checkpoint(run_dir: Path) -> None:
    (run_dir / "checkpoints" / "0000001200").mkdir(parents=True)


def test_to_the_end(
    stage: Stage, run_status: Callable[..., RunStatus], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def launcher_leaves() -> None:
        stage.launcher.exit_code = 0

    stage.looks = [lambda: None, run_status, launcher_leaves, ends(stage, 0, run_status(state="reached"))]
    one = planned(run_dir=tmp_path / "x", actors=(2, 5))
    assert train(one, as_json=True) == 0
    assert stage.learner.arguments[0] == "learner"
    assert stage.learner.option("--bind") == str(stage.address)
    assert stage.handed == [stage.address.port, stage.address.port + 1]
    assert parse(stage.settings.read(), "") == one.settings
    assert "--resume" not in stage.learner.arguments
    expected = ("launcher", str(stage.address), "--slots", "5", "--prestart", "2", "--name", "here")
    assert stage.launcher.arguments == expected
    assert not stage.launcher.asked, "the learner told it"
    shown = capsys.readouterr()
    result = json.loads(shown.out)
    assert result | {"seconds": 0} == summary(run_status(state="reached")) | {"seconds": 0, "exit_code": 0}
    assert result["seconds"] > 0
    assert shown.err.startswith("a line\na line\n")


def test_a_training_that_lasts_gets_an_evaluator(
    stage: Stage, run_status: Callable[..., RunStatus], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later() -> None:
        assert len(stage.children) == 2, "not at once"
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 1e6)

    stage.looks = [run_status, later, run_status, ends(stage, 0)]
    train(planned("games:Car-v0", run_dir=tmp_path / "x"), as_json=True)
    evaluator = stage.children[2]
    assert evaluator.arguments[:2] == ("evaluator", str(stage.address))
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
        train(planned(env, network=network, run_dir=tmp_path / "x"), as_json=True)
        expected = [word for module in modules for word in ("--allow-module", module)]
        assert list(stage.launcher.arguments[8:]) == expected


def test_the_result_in_words(
    stage: Stage,
    run_status: Callable[..., RunStatus],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    a_checkpoint(Path("runs/x"))
    stage.looks = [ends(stage, 0, run_status(state="finished", run_dir="runs/x"))]
    train(planned(run_dir=tmp_path / "x"), as_json=False)
    shown = capsys.readouterr().out
    assert "mean return 87.3 after 1,204,320 frames (agent steps), 12,345 episodes" in shown
    for text in ("runs/x/curve.png", "a3cd evaluate runs/x", "a3cd record runs/x"):
        assert text in shown
    assert "evaluated" not in shown
    assert "--resume" not in shown, "a run at its limit would end at once"
    stage.children.clear()
    stage.looks = [ends(stage, 0, run_status(best_evaluation=evaluation_status()))]
    train(planned(run_dir=tmp_path / "w"), as_json=False)
    figures = "evaluated mean return 91.5 (88.2 to 94.8) over 40 episodes: version 20,000, the best"
    assert figures in capsys.readouterr().out
    stage.children.clear()
    monkeypatch.setattr(RunFolder, "best", lambda _: CheckpointPaths(Path("25000")))
    stage.looks = [ends(stage, 0, run_status(best_evaluation=evaluation_status()))]
    train(planned(run_dir=tmp_path / "v"), as_json=False)
    gained = "version 20,000; training has gained so much since that version 25,000 is taken for the best"
    assert gained in capsys.readouterr().out
    stage.children.clear()
    stage.looks = [ends(stage, 0, run_status(mean_return=None))]
    train(planned(run_dir=tmp_path / "y"), as_json=False)
    assert "no episode finished" in capsys.readouterr().out
    stage.children.clear()
    stage.looks = [ends(stage, 143, run_status(state="stopped", run_dir="runs/z"))]
    train(planned(run_dir=tmp_path / "z"), as_json=False)
    assert "a3cd train FlappyBird-v0 --resume --run-dir runs/z" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on(stage: Stage, tmp_path: Path, number: int) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), number)

    stage.looks = [interrupt]
    assert train(planned(run_dir=tmp_path / "x"), as_json=True) == 128 + number
    assert stage.learner.asked
    assert stage.launcher.asked


def test_a_learner_that_is_refused_prints_no_result(
    stage: Stage, run_status: Callable[..., RunStatus], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder has the result of the run that it holds."""
    write_summary(tmp_path, run_status())
    stage.looks = [ends(stage, 78)]
    assert train(planned(run_dir=tmp_path), as_json=True) == 78
    assert capsys.readouterr().out == ""
    assert stage.launcher.asked


@pytest.mark.parametrize(
    ("exit_code", "kind"),
    [(78, ConfigurationError), (2, ConfigurationError), (75, UnavailableError), (1, UnavailableError)],
)
def test_without_actors_there_is_no_training(
    stage: Stage,
    run_status: Callable[..., RunStatus],
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
        train(planned(run_dir=tmp_path / "x"), as_json=True)
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
        train(planned(run_dir=tmp_path / "x"), as_json=True)
    assert stage.learner.asked


def test_a_learner_that_dies_ends_the_training(stage: Stage, tmp_path: Path) -> None:
    stage.looks = [ends(stage, 137)]
    with pytest.raises(UnavailableError, match="the learner ended with exit code 137"):
        train(planned(run_dir=tmp_path / "x"), as_json=True)
    assert stage.launcher.asked


def test_trackers_are_told_of_a_run_that_has_begun(
    stage: Stage, tmp_path: Path, run_status: Callable[..., RunStatus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.cli.tracking.END_SECONDS", 0.0)
    begun: list[int] = []

    def look() -> None:
        begun.append(len(stage.children) - 2)

    stage.looks = [look, run_status, look, run_status, look, ends(stage, 0, run_status(state="reached"))]
    assert train(planned(run_dir=tmp_path / "x", trackers=("wandb", "mlflow")), as_json=True) == 0
    assert begun == [0, 2, 2]
    assert stage.children[2].arguments == ("track", str(tmp_path / "x"), "--to", "wandb")


def test_a_run_is_resumed(stage: Stage, tmp_path: Path) -> None:
    create(tmp_path, override(Settings(), ["seed=9"])).close()
    stage.looks = [ends(stage, 0)]
    train(planned(run_dir=tmp_path, resume=True), as_json=True)
    assert "--resume" in stage.learner.arguments
    assert stage.settings.read() == dump(read(RunFolder(tmp_path).settings_file))


def test_nothing_begins_that_looks_wrong(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(settings: Settings, folder: RunFolder, resume: bool) -> None:
        assert (settings.seed, folder.path, resume) == (7, tmp_path, False)
        raise ConfigurationError("it cannot be")

    monkeypatch.setattr(preflight, "check", check)
    with pytest.raises(ConfigurationError, match="it cannot be"):
        train(planned(run_dir=tmp_path, seed=7), as_json=True)
    assert (len(stage.children), stage.settings.read()) == (1, ""), "the learner may not begin"


def test_a_run_that_is_over_is_not_started_again(
    stage: Stage,
    run_status: Callable[..., RunStatus],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create(tmp_path, Settings()).close()
    write_summary(tmp_path, run_status(state="reached"))
    monkeypatch.setattr(preflight, "why_over", lambda *_: "500 of 500 frames")
    assert train(planned(run_dir=tmp_path, resume=True), as_json=True) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["exit_code"] == 0
    assert shown.err == f"{tmp_path}: the run is over: 500 of 500 frames; it goes on with a higher limit or goal\n"
    assert stage.children == []


def test_the_learners_reason_is_the_last_line(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        stage.learner_says("error: it cannot be")
        ends(stage, 78)()

    stage.looks = [refuse]
    stage.when_asked = lambda: stage.launcher_says("launcher leaving")
    train(planned(run_dir=tmp_path / "x"), as_json=True)
    assert stage.launcher.asked
    assert capsys.readouterr().err.splitlines()[-1] == "error: it cannot be"


def test_who_waits_for_a_learner_is_not_heard_before_it_answers(
    stage: Stage, run_status: Callable[..., RunStatus], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for answers in (False, True):
        stage.children.clear()
        stage.looks = [run_status] if answers else []
        stage.looks += [ends(stage, 78)]
        stage.launcher_starts = lambda: stage.launcher_says("warning: no learner")
        train(planned(run_dir=tmp_path / str(answers)), as_json=True)
        assert ("warning: no learner" in capsys.readouterr().err) is answers


def test_the_hints_can_be_typed_as_they_are(
    stage: Stage,
    run_status: Callable[..., RunStatus],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    a_checkpoint(Path("my runs/x"))
    monkeypatch.setenv("PYTHONPATH", "./my games")
    for env, before in (("games:Car-v0", "PYTHONPATH='./my games' a3cd"), ("CartPole-v1", "a3cd")):
        stage.children.clear()
        stage.looks = [ends(stage, 143, run_status(state="stopped", run_dir="my runs/x", env=env))]
        train(planned(env, run_dir=tmp_path / env), as_json=False)
        shown = capsys.readouterr().out
        for hint in ("evaluate 'my runs/x'", "record 'my runs/x'", f"train {env} --resume --run-dir 'my runs/x'"):
            assert f"  {before} {hint}" in shown


def test_other_ports_where_the_usual_ones_are_in_use(stage: Stage, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # somebody else uses it: as good
            stack.enter_context(socket.create_server(("127.0.0.1", DEFAULT_PORT + 1)))
        stage.looks = [ends(stage, 0)]
        train(planned(run_dir=tmp_path / "x"), as_json=True)
    assert stage.address.host == "127.0.0.1"
    assert stage.address.port != DEFAULT_PORT


def test_a_run_without_a_frame_is_no_success(
    stage: Stage, run_status: Callable[..., RunStatus], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.looks = [ends(stage, 0, run_status(state="finished", frames=0))]
    with pytest.raises(UnavailableError, match="over before its first frame"):
        train(planned(run_dir=tmp_path / "x"), as_json=True)
    assert json.loads(capsys.readouterr().out)["exit_code"] == 75


@pytest.mark.parametrize("kept", ["there is no checkpoint", "the newest checkpoint is of version 1,200"])
def test_the_result_says_what_is_saved(
    stage: Stage, run_status: Callable[..., RunStatus], tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: str
) -> None:
    if "1,200" in kept:
        a_checkpoint(tmp_path / "x")
    stage.looks = [ends(stage, 75, run_status(state="stopped", run_dir=str(tmp_path / "x")))]
    assert train(planned(run_dir=tmp_path / "x"), as_json=False) == 75
    shown = capsys.readouterr().out
    assert f"  saved     {kept}\n" in shown
    assert ("a3cd evaluate" in shown) is ("1,200" in kept)
