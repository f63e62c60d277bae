from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from common.host.addresses import Address
from common.settings.sections import Settings
from common.settings.toml import override, parse
from learner.record.run_lock import create
from tests.helpers.command_line import a3cd


def test_it_is_started_with_what_is_said(stand: Any, tmp_path: Path) -> None:
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
        "metrics": None,
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


def test_a_learner_that_goes_on_with_the_run_s_own_settings_but_for_some(stand: Any, tmp_path: Path) -> None:
    run = stand("learner.daemon.run")
    create(tmp_path / "run", override(Settings(), ["seed=3"])).close()
    a3cd("learner", "--resume", "--run-dir", tmp_path / "run", "--set", "limits.frames=900")
    assert run.arguments == (override(Settings(), ["seed=3", "limits.frames=900"]),)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "a learner needs --config FILE"),
        (["--resume"], "--resume needs --run-dir"),
        (["--resume-or-create"], "--resume needs --run-dir"),
        (["--resume-or-create", "--run-dir", "x"], "a learner needs --config FILE"),
        (["--set", "seed=1"], "a learner needs --config FILE"),
        (["--bind", "nonsense:::"], "is no address"),
        (["--nonsense"], "No such option"),
    ],
)
def test_a_learner_misused(stand: Any, arguments: list[str], text: str) -> None:
    stand("learner.daemon.run", AssertionError())
    result = a3cd("learner", *arguments)
    assert result.exit_code == 2
    assert text in result.output


def test_defaults_are_the_settings_own(stand: Any, tmp_path: Path) -> None:
    run = stand("learner.daemon.run")
    config = tmp_path / "run.toml"
    config.write_text("")
    a3cd("learner", "--config", config, "--run-dir", tmp_path / "x")
    assert run.arguments == (Settings(),)


@pytest.mark.parametrize(
    ("options", "address"),
    [
        (["--metrics", 9464], Address("127.0.0.1", 9464)),
        (["--metrics", "0.0.0.0:9464", "--insecure-metrics"], Address("0.0.0.0", 9464)),
    ],
)
def test_where_prometheus_finds_it(stand: Any, tmp_path: Path, options: list[object], address: Address) -> None:
    run = stand("learner.daemon.run")
    assert a3cd("learner", "--resume", "--run-dir", tmp_path, *options).exit_code == 0
    assert run.options["metrics"] == address


def test_metrics_are_for_other_hosts_only_where_that_is_said(
    stand: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stand("learner.daemon.run", AssertionError())
    result = a3cd("learner", "--resume", "--run-dir", tmp_path, "--metrics", "0.0.0.0:9464", "--insecure")
    assert result.exit_code == 78
    assert "--metrics 0.0.0.0:9464 can be read from other hosts, by anybody: --insecure-metrics allows" in caplog.text
