"""Each way to exchange in a short run; the runs are stand-ins that write metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from common.errors import EXIT_CONFIGURATION, ConfigurationError, UnavailableError
from common.run.folder import RunFolder
from common.run.status import RunStatus, summary
from common.settings.sections import Settings
from deploy.cli import exchange_bench
from deploy.cli.exchange_bench import Measured, advice, measured
from deploy.cli.request import TrainRequest
from tests.helpers.command_line import a3cd

RATES = {"gradients": 1000, "trajectories": 1500, "actions": 400}


def row(seconds: float, frames: int, gradients: int, busy: float = 0.5) -> dict[str, Any]:
    return {"seconds": seconds, "frames": frames, "gradients": gradients, "learner_busy": busy}


def way(exchange: str, rate: float) -> Measured:
    others = {"uploads_per_second": 1.0, "upload_bytes_per_frame": 1.0, "lag_mean": 0.0, "lag_p95": 0.0}
    return Measured(exchange=exchange, frames_per_second=rate, learner_busy=0.1, **others)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, run_status: Callable[..., RunStatus]) -> list[TrainRequest]:
    """Those that were asked for; each plays at the rate of its exchange."""
    asked: list[TrainRequest] = []

    def supervise(run: TrainRequest) -> tuple[int, dict[str, Any]]:
        asked.append(run)
        rate = RATES[run.settings.exchange.kind]
        run.run_dir.mkdir()
        lines = [json.dumps(row(float(second), second * rate, second * 10)) for second in range(12)]
        RunFolder(run.run_dir).metrics_file.write_text("\n".join(lines))
        return 0, summary(run_status(frames=100, gradient_bytes=4000, lag_mean=1.5, lag_p95=3.0))

    monkeypatch.setattr(exchange_bench, "supervise", supervise)
    return asked


def test_each_exchange_that_the_algorithm_has(runs: list[TrainRequest]) -> None:
    result = a3cd("bench", "exchange", "CartPole-v1", "--seconds", 7, "--actors", 3, "--set", "seed=4", "--json")
    shown = json.loads(result.stdout)
    assert [one["exchange"] for one in shown["ways"]] == ["gradients", "trajectories"]
    assert shown["ways"][0] == {
        "exchange": "gradients",
        "frames_per_second": 1000.0,
        "uploads_per_second": 10.0,
        "upload_bytes_per_frame": 40.0,
        "lag_mean": 1.5,
        "lag_p95": 3.0,
        "learner_busy": 0.5,
    }
    assert (shown["env"], shown["seconds"], shown["fastest"]) == ("CartPole-v1", 7.0, "trajectories")
    for run in runs:
        assert (run.settings.limits.seconds, run.settings.limits.until_return) == (7.0, None)
        assert (run.settings.seed, run.settings.scaling.minimum, run.resume) == (4, 3, False)
        assert not run.run_dir.parent.exists(), "the folder is deleted"
        assert run.no_curve, "or it would be drawn beside the next run"


@pytest.mark.usefixtures("runs")
def test_actions_only_when_asked_for() -> None:
    shown = a3cd("bench", "exchange", "CartPole-v1", "--all").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["exchange.kind", "gradients", "trajectories", "actions", "set"]
    assert shown[-1] == 'set exchange.kind = "trajectories": 1.5 times the frames/s of gradients'


@pytest.mark.usefixtures("runs")
def test_a_way_that_the_settings_forbid_is_left_out() -> None:
    settings = ("staleness.policy=compensate", "algorithm.refresh=false", "exchange.accumulate=1")
    words = [word for setting in settings for word in ("--set", setting)]
    result = a3cd("bench", "exchange", "CartPole-v1", *words)
    assert "exchange.kind = trajectories is left out: " in result.stderr
    assert "the only way that was measured" in result.stdout


@pytest.mark.usefixtures("runs")
def test_settings_that_forbid_every_way_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(settings: Settings, assignments: list[str]) -> Settings:
        raise ConfigurationError(f"{assignments}: not with these")

    monkeypatch.setattr(exchange_bench, "override", forbidden)
    result = a3cd("bench", "exchange", "CartPole-v1")
    assert result.exit_code == EXIT_CONFIGURATION
    assert "no exchange.kind goes with these settings" in result.stderr


def test_a_run_that_is_stopped_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_bench, "supervise", lambda run: (143, {}))
    result = a3cd("bench", "exchange", "CartPole-v1")
    assert (result.exit_code, result.stdout) == (143, "")


def test_the_start_is_left_out() -> None:
    """Nothing is played for two seconds, then slowly until all actors are there."""
    rows = [row(0.0, 0, 0), row(1.0, 0, 0), row(2.0, 10, 1), row(3.0, 30, 2, 0.25), row(4.0, 1030, 52, 0.75)]
    found = measured("gradients", rows, {"gradient_bytes": 10, "frames": 1030, "lag_mean": 0.0, "lag_p95": 0.0})
    assert (found.frames_per_second, found.uploads_per_second, found.learner_busy) == (1000.0, 50.0, 0.5)
    with pytest.raises(UnavailableError, match="hardly began to play; give them more --seconds"):
        measured("gradients", rows[:3], {})


def test_advice() -> None:
    assert "about equally fast" in advice([way("gradients", 100.0), way("trajectories", 105.0)])
    assert advice([way("gradients", 300.0), way("actions", 100.0)]).startswith('set exchange.kind = "gradients": 3 ')
