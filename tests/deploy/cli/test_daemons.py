"""The commands of the daemons: what each hands on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.host.addresses import Address
from common.settings.sections import Settings
from common.settings.toml import parse
from tests.helpers.command_line import AT, a3cd


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
    }

    a3cd("learner", "--config", config)
    assert run.options["bind"] == Address("127.0.0.1", 5555)
    assert str(run.options["run_dir"]).startswith(str(Path("runs", "CartPole-v1-")))

    a3cd("learner", "--resume", "--run-dir", tmp_path)
    assert run.arguments == (None,)
    assert run.options["resume"] is True


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
    assert (run.arguments, run.options) == ((AT,), {"name": "a", "launcher": "here", "modules": ("envs",)})
    start = stand("deploy.launcher.shell.run", 78)
    assert a3cd("launcher", "localhost", "--slots", 4, "--name", "here", "--prestart", 2).exit_code == 78
    assert start.arguments[0] == AT
    assert start.options == {"name": "here", "prestart": 2}
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
