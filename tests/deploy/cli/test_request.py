from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security import access
from common.host.security.credential import Credential, file_name
from common.host.security.keys import KeyPair
from common.settings.sections import Settings
from common.settings.toml import override
from deploy.cli.request import USUAL, TrainRequest, request
from learner.record.run_lock import create
from tests.helpers.command_line import a3cd

NOTHING = dict.fromkeys(("algorithm", "network", "seed", "frames", "episodes", "seconds", "until_return"))


def planned(env: str | None = "CartPole-v1", **given: Any) -> TrainRequest:
    return request(env, **{**NOTHING, **given})


def test_a_preset_is_taken_and_options_are_put_over_it() -> None:
    one = planned(
        seed=5, frames=1000, until_return=100.5, network="dense", assignments=("optimizer.learning_rate=0.5",)
    )
    settings = one.settings
    assert settings.environment.id == "CartPole-v1"
    assert settings.environment.reward_scale == 0.1, "of the preset"
    assert (settings.seed, settings.limits.frames, settings.limits.until_return) == (5, 1000, 100.5)
    assert (settings.network.kind, settings.optimizer.learning_rate) == ("dense", 0.5)
    assert str(one.run_dir).startswith(str(Path("runs", "CartPole-v1-")))


def test_a_reproducible_run_has_what_it_needs_over_the_preset() -> None:
    one, preset = planned(reproducible=True, frames=500).settings, planned().settings
    assert (one.reproducible, preset.reproducible) == (True, False)
    assert (one.staleness.policy, one.scaling.policy, one.scaling.minimum) == ("synchronous", "fixed", 2)
    assert (one.optimizer.device, one.limits.frames) == ("cpu", 500)
    assert one.environment == preset.environment and one.algorithm == preset.algorithm
    assert planned(reproducible=True, actors=(1, 1)).settings.scaling.minimum == 1


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"actors": (2, 8)}, "scaling.policy"),
        ({"seconds": 10.0}, "limits.seconds"),
        ({"assignments": ("staleness.policy=scale",)}, "staleness.policy"),
        ({"assignments": ("exchange.kind=actions",)}, "exchange.kind"),
        ({"assignments": ("exchange.credit=2",)}, "exchange.credit"),
        ({"assignments": ("exchange.weights=delta",)}, "exchange.weights"),
    ],
)
def test_what_a_reproducible_run_cannot_have_is_refused_by_its_name(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(named)):
        planned(reproducible=True, **given)


def test_an_algorithm_brings_what_the_preset_says_of_it() -> None:
    one, other = planned(algorithm="n-step-q").settings, planned().settings
    assert (one.algorithm.kind, other.algorithm.kind) == ("n-step-q", "a3c")
    assert one.algorithm.target_frames != other.algorithm.target_frames
    assert one.environment == other.environment


def test_an_algorithm_brings_its_own_settings_and_options_are_put_over_them() -> None:
    settings = planned(algorithm="ppo", assignments=("algorithm.gae_lambda=0.5",)).settings
    assert (settings.algorithm.kind, settings.algorithm.normalize_advantages) == ("ppo", True)
    assert (settings.algorithm.gae_lambda, settings.environment.reward_scale) == (0.5, 0.1)
    assert planned(algorithm="a3c").settings == planned().settings


@pytest.mark.parametrize(
    ("actors", "assignments", "scaling", "slots"),
    [
        (None, (), ("fixed", 2, 2), 2),
        ((4, 4), (), ("fixed", 4, 4), 4),
        ((2, 8), (), ("episode-duration", 2, 8), 8),
        ((2, 8), ("scaling.policy=load",), ("load", 2, 8), 8),
    ],
)
def test_actors(
    actors: tuple[int, int] | None, assignments: tuple[str, ...], scaling: tuple[str, int, int], slots: int
) -> None:
    one = planned(actors=actors, assignments=assignments)
    section = one.settings.scaling
    assert (section.policy, section.minimum, section.maximum) == scaling
    assert one.slots == slots


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"algorithm": "nonsense"}, 'algorithm.kind = "nonsense"'),
        ({"frames": -1}, "limits.frames = -1"),
        ({"assignments": ("nonsense=1",)}, "nonsense is no setting"),
        ({"resume": True}, "--resume needs --run-dir"),
        ({"resume": True, "run_dir": Path("no-such-folder")}, "no-such-folder: there is no such folder"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        planned(**given)


def test_a_resumed_run_keeps_its_settings(tmp_path: Path) -> None:
    settings = override(Settings(), ["seed=9", "limits.frames=500", "optimizer.learning_rate=0.25"])
    create(tmp_path, settings).close()
    one = planned(resume=True, run_dir=tmp_path, frames=900)
    assert (one.settings.seed, one.settings.optimizer.learning_rate, one.settings.limits.frames) == (9, 0.25, 900)
    assert one.resume
    assert planned(None, resume=True, run_dir=tmp_path).settings == settings
    with pytest.raises(ConfigurationError, match="the run is of CartPole-v1, not of Acrobot-v1"):
        planned("Acrobot-v1", resume=True, run_dir=tmp_path)


def test_a_file_takes_the_place_of_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "best.toml"
    file.write_text('environment.id = "CartPole-v1"\noptimizer.learning_rate = 0.25\nlimits.frames = 7\n')
    settings = planned(config=file, frames=9).settings
    assert (settings.optimizer.learning_rate, settings.limits.frames) == (0.25, 9)
    assert settings.environment.reward_scale == 1, "nothing is left of the preset"
    assert planned(config=file, algorithm="ppo").settings.algorithm.normalize_advantages, "as ppo wants it"
    assert planned(None, config=file).settings == planned(config=file).settings
    assert planned(None, config=file).run_dir.name.startswith("CartPole-v1-")
    with pytest.raises(ConfigurationError, match="--config with --resume"):
        planned(config=file, resume=True, run_dir=tmp_path)


def test_a_curve_is_drawn_unless_nobody_wants_it() -> None:
    assert not planned().no_curve
    assert planned(no_curve=True).no_curve


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        (None, []),
        (Address("127.0.0.1", 9464), ["--metrics", "127.0.0.1:9464"]),
        (Address("0.0.0.0", 9464), ["--metrics", "0.0.0.0:9464", "--insecure-metrics"]),
    ],
)
def test_metrics_are_served_by_the_learner(metrics: Address | None, words: list[str]) -> None:
    started = planned(metrics=metrics).learner(Address("127.0.0.1", 5555))
    assert started[started.index("--no-curve") + 1 :] == words


def test_a_stored_credential_is_not_for_the_learner_of_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no keys: a launcher that showed a key would wait for it for ever."""
    monkeypatch.setattr(access, "default_folder", lambda: tmp_path)
    Credential(USUAL, KeyPair.generate("learner").public, KeyPair.generate("here")).write(tmp_path / file_name(USUAL))
    assert access.find(USUAL).credential is not None
    told = a3cd(*planned(actors=(1, 1)).launcher(USUAL), "--dry-run")
    assert told.exit_code == 0, told.output
    assert "(without keys)" in told.stdout
    assert f"a3cd actor {USUAL} --insecure" in told.stdout
    assert told.stderr == "", "nothing that would alarm"
