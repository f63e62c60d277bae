from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from common.settings.sections import Settings
from deploy.cli.command import cli
from learner.record.run_lock import create
from tests.helpers.command_line import a3cd


def test_a_file(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text("")
    good = a3cd("check-config", config)
    said = f"{config}: good: CartPole-v1, a3c, fixed scaling"
    made = r"; dense with \d+ parameters on (cpu|cuda), (gradients|trajectories)\n"
    assert good.exit_code == 0 and re.fullmatch(re.escape(said) + made, good.output)
    assert good.stderr == ""
    config.write_text('scaling = { policy = "episode-duration", unit = "seconds", maximum = 8 }')
    doubtful = a3cd("check-config", config)
    assert doubtful.exit_code == 0 and "good: " in doubtful.stdout
    assert doubtful.stderr.startswith(
        "warning: scaling.thresholds_seconds = 20, 40, 60 is never passed: an episode has "
    )
    config.write_text('optimizer.compile = true\nexchange.kind = "gradients"')
    unhelpful = a3cd("check-config", config)
    assert unhelpful.exit_code == 0 and "good: " in unhelpful.stdout
    assert unhelpful.stderr.startswith("warning: optimizer.precision and optimizer.compile are for a learner that ")
    config.write_text('environment.id = "NotHere-v0"')
    assert "NotHere-v0 does not exist" in a3cd("check-config", config).stderr
    unseen = a3cd("check-config", "--parse-only", config)
    assert (unseen.exit_code, unseen.output) == (0, f"{config}: good: NotHere-v0, a3c, fixed scaling\n")


@pytest.mark.parametrize(
    ("piped", "why"),
    [(b"seed = -1", "seed = -1: must be"), (b"# \xff", "is no UTF-8 text (byte 2)"), ("# –".encode(), "")],
)
def test_standard_input(piped: bytes, why: str) -> None:
    for charset in ("utf-8", "latin-1", "ascii"):  # of a locale; TOML has its own
        read = CliRunner(charset=charset).invoke(cli, ["check-config", "--parse-only", "-"], input=piped)
        assert read.exit_code == (78 if why else 0)
        assert f"standard input: {why}" in read.stderr if why else "-: good: " in read.output


def test_against_a_run(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text("seed = 3")
    words = ("check-config", config, "--run-dir", tmp_path / "run")
    assert a3cd(*words).exit_code == 0, "there is no run yet"
    create(tmp_path / "run", Settings()).close()
    assert a3cd(*words).exit_code == 0
    config.write_text('optimizer.kind = "sgd"')
    assert "the run has other settings: optimizer.kind" in a3cd(*words).stderr
    config.write_text('reproducible = true\nstaleness.policy = "synchronous"\noptimizer.device = "cpu"')
    assert "reproducible = true: a run that is resumed is not the same" in a3cd(*words).stderr
    config.write_text("[optimizer]\nlearning_rate = -1")
    bad = a3cd("check-config", config)
    assert bad.exit_code == 78
    assert "optimizer.learning_rate = -1: must be" in bad.stderr
    assert bad.stdout == ""
