from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from common.errors import ConfigurationError
from common.rl.environments.make import make
from common.rl.networks.model import build
from common.run import presets
from common.settings.exchanges import EXCHANGES, staleness_policy
from common.settings.sections import Settings
from common.settings.toml import dump, parse

PPO = ["Pendulum-v1", "MountainCar-v0", "LunarLander-v3", "BipedalWalker-v3", "HalfCheetah-v5"]
NEEDS = {"LunarLander-v3": "Box2D", "BipedalWalker-v3": "Box2D", "HalfCheetah-v5": "mujoco"}


def test_names_are_sorted_and_for_the_environments_promised() -> None:
    assert presets.names() == sorted(presets.names())
    assert {"CartPole-v1", "FlappyBird-v0", "FlappyBird-v0-frames", "Acrobot-v1", "ALE-Pong-v5"} <= set(presets.names())
    assert {"Pendulum-v1", "LunarLander-v3", "MountainCar-v0"} <= set(presets.names())
    assert "HalfCheetah-v5" in presets.names()


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_is_a_run_that_a_learner_takes(name: str) -> None:
    preset = presets.show(name)
    settings = preset.settings()
    assert preset.name == name
    assert preset.text.startswith(f"# {preset.purpose}\n")
    assert settings.environment.id.replace("/", "-") in name
    assert preset.purpose.startswith(settings.environment.id)
    assert settings.limits != Settings().limits, "a preset ends by itself"
    assert parse(dump(settings), name) == settings


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_holds_what_differs_from_the_defaults_and_says_why(name: str) -> None:
    text = presets.show(name).text
    plain, usual = tomllib.loads(text), msgspec.to_builtins(Settings())
    own = {
        (section, key): value for section, table in plain.items() if section != "for" for key, value in table.items()
    }
    own.pop(("environment", "id"))
    assert [path for path, value in own.items() if usual[path[0]][path[1]] == value] == []
    values = text.partition("[for.")[0].partition("[limits]")[0].splitlines()
    assert [
        line for line in values if " = " in line and "#" not in line and not line.startswith(("id", "options"))
    ] == []


def test_a_preset_goes_by_its_environments_id_as_well() -> None:
    assert presets.show("ALE/Pong-v5") == presets.show("ALE-Pong-v5")


def test_the_preset_of_an_environment_is_found_by_its_id() -> None:
    for environment in ("CartPole-v1", "gymnasium:CartPole-v1", "ALE/Pong-v5", "ALE/Tennis-v5"):
        preset = presets.find(environment)
        assert preset is not None and preset.settings().environment.id == environment.rpartition(":")[2]
    assert presets.find("Taxi-v3") is presets.find("my_envs:Grid") is None


def test_every_atari_game_is_shown_with_breakout_s_settings() -> None:
    invaders = presets.show("ALE/SpaceInvaders-v5")
    assert invaders == presets.show("ALE-SpaceInvaders-v5")
    assert "Breakout" not in invaders.text
    assert invaders.settings() == presets.for_environment("ALE/SpaceInvaders-v5")


@pytest.mark.parametrize("name", ["CartPole-v2", "", "../settings/sections", "__init__.py", "CartPole-v1.toml"])
def test_no_such_preset(name: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"no preset is called .*; .*there are ALE-Breakout-v5, ALE-Pong-v5, Acrobot-v1, BipedalWalker-v3, "
        "CartPole",
    ):
        presets.show(name)


@pytest.mark.parametrize(
    ("environment", "preset", "id"),
    [
        ("CartPole-v1", "CartPole-v1", "CartPole-v1"),
        ("ALE/Pong-v5", "ALE-Pong-v5", "ALE/Pong-v5"),
        ("FlappyBird-v0-frames", "FlappyBird-v0-frames", "FlappyBird-v0"),
        ("flappy_bird_gymnasium:FlappyBird-v0", "FlappyBird-v0", "flappy_bird_gymnasium:FlappyBird-v0"),
        ("ALE/Breakout-v5", "ALE-Breakout-v5", "ALE/Breakout-v5"),
        ("ALE/SpaceInvaders-v5", "ALE-Breakout-v5", "ALE/SpaceInvaders-v5"),
        ("ALE-SpaceInvaders-v5", "ALE-Breakout-v5", "ALE/SpaceInvaders-v5"),
        ("ale_py:ALE/SpaceInvaders-v5", "ALE-Breakout-v5", "ale_py:ALE/SpaceInvaders-v5"),
    ],
)
def test_the_settings_for_an_environment(environment: str, preset: str, id: str) -> None:
    found, tuned = presets.for_environment(environment), presets.show(preset).settings()
    assert found.environment.id == id
    assert found.optimizer == tuned.optimizer
    assert found.algorithm == tuned.algorithm
    assert found.environment.options == tuned.environment.options


def test_an_environment_without_a_preset_takes_the_defaults() -> None:
    assert presets.for_environment("Taxi-v3") == parse('[environment]\nid = "Taxi-v3"', "here")


def test_what_an_algorithm_wants_otherwise_whatever_the_environment() -> None:
    for environment in ("CartPole-v1", "MyGame-v0"):
        settings = presets.for_environment(environment)
        assert presets.for_environment(environment, "a3c") == settings
        ppo = presets.for_environment(environment, "ppo").algorithm
        assert (ppo.kind, ppo.gae_lambda, ppo.normalize_advantages) == ("ppo", 0.95, True)
        assert ppo.rollout_length == settings.algorithm.rollout_length
    with pytest.raises(ConfigurationError, match=r"algorithm\.kind = .*must be one of a2c, a3c"):
        presets.for_environment("CartPole-v1", "../a3c")


def test_a_goal_belongs_to_the_environment_it_was_found_for() -> None:
    assert presets.for_environment("CartPole-v1").limits.until_return == 475.0
    assert presets.for_environment("mine:CartPole-v1").limits.until_return is None


@pytest.mark.parametrize("algorithm", EXCHANGES)
@pytest.mark.parametrize("name", presets.names())
def test_every_preset_is_a_run_with_every_algorithm(name: str, algorithm: str) -> None:
    settings = presets.show(name).settings(algorithm)
    assert staleness_policy(settings) == ("synchronous" if algorithm in ("a2c", "ppo") else "scale")
    assert settings.algorithm.kind == algorithm
    assert presets.for_environment(name, algorithm) == settings


@pytest.mark.parametrize("name", PPO)
def test_a_preset_of_ppo_leaves_its_steps_to_others(name: str) -> None:
    own, a3c = presets.for_environment(name), presets.for_environment(name, "a3c")
    assert own == presets.for_environment(name, "ppo")
    assert (own.algorithm.kind, own.algorithm.normalize_advantages) == ("ppo", True)
    assert a3c.algorithm.kind == "a3c"
    assert a3c.algorithm.rollout_length <= own.algorithm.rollout_length
    assert (a3c.environment, a3c.limits) == (own.environment, own.limits)


@pytest.mark.parametrize("name", PPO)
def test_a_preset_fits_its_environments_spaces(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings to a file in the working folder
    settings = presets.for_environment(name)
    environments = make(settings.environment, num_envs=2, seed=0)
    model = build(settings, environments.observation, environments.action)
    assert model.normalization.observations == environments.observation.shape[0]  # type: ignore[index]
    environments.close()


def test_a_file_in_the_place_of_a_preset(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('environment.id = "FlappyBird-v0"\n[for.a2c.optimizer]\nlearning_rate = 0.5\n')
    assert presets.from_file(file, "FlappyBird-v0").optimizer.learning_rate != 0.5
    assert presets.from_file(file, "FlappyBird-v0-frames", "a2c").optimizer.learning_rate == 0.5
    with pytest.raises(ConfigurationError, match=r"run\.toml: its settings are of FlappyBird-v0, not of CartPole-v1"):
        presets.from_file(file, "CartPole-v1")
    with pytest.raises(ConfigurationError, match=r"none\.toml: No such file"):
        presets.from_file(tmp_path / "none.toml", "CartPole-v1")
