from __future__ import annotations

import pytest

from common.errors import ConfigurationError
from common.run import presets
from common.settings.sections import Algorithm, Optimizer, Settings
from common.settings.toml import override
from deploy.cli.tune.space import SPACES, Choice, Range, assignments_of, parse, space, usual, value_at

PLAIN = Settings()


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "sgd"])
def test_the_table_has_ranges_for_every_algorithm_and_optimizer(kind: str, optimizer: str) -> None:
    settings = override(PLAIN, [f"algorithm.kind={kind}", f"optimizer.kind={optimizer}"])
    axes = space(settings, [], [])
    assert [axis.key for axis in axes] == list(usual(settings))
    for axis in axes:
        assert isinstance(axis, Range)
        assert str(parse(str(axis), settings)) == str(axis)


def test_every_algorithm_has_a_space() -> None:
    assert set(SPACES) == set(Algorithm.__annotations__["kind"].__args__)


@pytest.mark.parametrize("name", presets.names())
def test_what_a_preset_has_is_tried_first(name: str) -> None:
    """Where all of it is in the ranges, a search cannot end below the preset but by chance."""
    settings = presets.show(name).settings()
    held = {axis.key: axis.holds(settings) for axis in space(settings, [], [])}
    assert held["optimizer.learning_rate"] == settings.optimizer.learning_rate
    assert held["algorithm.rollout_length"] == settings.algorithm.rollout_length


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("optimizer.learning_rate=1e-4..1e-2,log", Range("optimizer.learning_rate", 1e-4, 1e-2, True)),
        ("algorithm.gae_lambda=0..1", Range("algorithm.gae_lambda", 0.0, 1.0, False)),
        ("algorithm.rollout_length = 5..64, log", Range("algorithm.rollout_length", 5, 64, True)),
        ("environment.num_envs=8,16", Choice("environment.num_envs", ("8", "16"))),
        ("network.hidden=[64,64],[128]", Choice("network.hidden", ("[64,64]", "[128]"))),
        ("network.activation=relu,tanh", Choice("network.activation", ("relu", "tanh"))),
    ],
)
def test_a_range_or_a_choice(text: str, axis: Range | Choice) -> None:
    assert parse(text, PLAIN) == axis


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "optimizer.learning_rates=1..2",
            "optimizer.learning_rates is no setting; did you mean optimizer.learning_rate",
        ),
        ("learning_rate=1e-4..1e-2", "did you mean optimizer.learning_rate"),
        ("optimizer.learning_rate", "must be key=a,b"),
        ("optimizer.learning_rate=", "must be key=a,b"),
        ("optimizer.learning_rate=1e-3", "two values or more that differ"),
        ("environment.num_envs=8,8", "two values or more that differ"),
        ("environment.num_envs=8,x", 'environment.num_envs = "x": must be a whole number'),
        ("optimizer.learning_rate=1e-2..1e-4", "begins below its end"),
        ("optimizer.learning_rate=-1..1", "optimizer.learning_rate = -1: must be a number above 0"),
        ("algorithm.entropy_coef=0..0.1,log", "begins above 0"),
        ("algorithm.gae_lambda=0.5..1.5", "algorithm.gae_lambda = 1.5: must be a number from 0"),
        ("algorithm.gae_lambda=0.5..1,lin", "nothing, or log, not lin"),
        ("network.activation=relu..tanh", "is no number"),
        ("algorithm.refresh=false..true", "is no number"),
        ("seed=0..9", "seed is the study's own"),
        ("limits.frames=10..20", "limits.frames is the study's own"),
        ("evaluation.episodes=10,20", "must be the same for all"),
    ],
)
def test_what_cannot_be_searched_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(text, PLAIN)
    assert str(refused.value).startswith(f"--search {text}")
    assert why in str(refused.value)


def test_a_person_adds_replaces_and_takes_out() -> None:
    searched = ["algorithm.gamma=0.9..0.999", "environment.num_envs=8,16"]
    keys = {axis.key: str(axis) for axis in space(PLAIN, searched, ["optimizer.epsilon = 1e-6"])}
    assert keys["algorithm.gamma"] == "algorithm.gamma=0.9..0.999"
    assert keys["environment.num_envs"] == "environment.num_envs=8,16"
    assert "optimizer.epsilon" not in keys
    with pytest.raises(ConfigurationError, match="has one value by --set"):
        space(PLAIN, ["algorithm.gamma=0.9..0.999"], ["algorithm.gamma=0.9"])
    with pytest.raises(ConfigurationError, match="searched already"):
        space(PLAIN, ["algorithm.gamma=0.9..0.999", "algorithm.gamma=0.9,0.99"], [])
    with pytest.raises(ConfigurationError, match="nothing is left to search"):
        space(PLAIN, [], [f"{key}=1" for key in usual(PLAIN)])


def test_numbers_are_rounded_and_stay_in_their_range() -> None:
    narrow = Range("optimizer.learning_rate", 0.0012345, 0.01, True)
    assert narrow.used(0.00123456) == 0.0012345
    assert narrow.used(0.0034567) == 0.00346
    assert Range("algorithm.rollout_length", 5, 64, False).used(1234) == 1234
    axes = [narrow, parse("network.hidden=[64,64],[128]", PLAIN)]
    drawn = {"optimizer.learning_rate": 0.0034567, "network.hidden": "[64,64]"}
    settings = override(PLAIN, assignments_of(axes, drawn))
    assert (settings.optimizer.learning_rate, settings.network.hidden) == (0.00346, [64, 64])


def test_what_the_settings_have_themselves() -> None:
    assert parse("network.hidden=[64,64],[128]", PLAIN).holds(PLAIN) == "[128]"
    assert parse("network.hidden=[64,64],[32]", PLAIN).holds(PLAIN) is None
    assert parse("optimizer.beta1=0..0.9", PLAIN).holds(PLAIN) is None, "not set"
    assert parse("optimizer.learning_rate=0.01..0.1", PLAIN).holds(PLAIN) is None
    assert value_at(Settings(optimizer=Optimizer(beta2=0.5)), "optimizer.beta2") == 0.5
    assert value_at(PLAIN, "environment.options.difficulty") is None
