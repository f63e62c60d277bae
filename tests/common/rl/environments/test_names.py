from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError, EnvironmentMissingError
from common.rl.environments.make import make
from common.rl.environments.names import (
    draws_actions,
    extra,
    find_spec,
    is_atari,
    known,
    longest_episode,
    own_cure,
    resolve,
)
from common.settings.sections import Environment, Evaluation, Settings


@pytest.mark.parametrize(
    ("section", "resolved"),
    [
        (Environment(id="CartPole-v1"), ("state", 1, 1, {})),
        (Environment(id="CartPole-v1", observation="frames", frame_skip=2), ("frames", 2, 4, {})),
        (Environment(id="CartPole-v1", frame_stack=3), ("state", 1, 3, {})),
        (Environment(id="ALE/Pong-v5"), ("frames", 4, 4, {})),
        (Environment(id="ale_py:ALE/Pong-v5", frame_skip=1, frame_stack=1), ("frames", 1, 1, {})),
        (Environment(id="FlappyBird-v0"), ("state", 1, 1, {"use_lidar": False})),
        (
            Environment(id="flappy_bird_gymnasium:FlappyBird-v0", options={"use_lidar": True, "pipe_gap": 120}),
            ("state", 1, 1, {"use_lidar": True, "pipe_gap": 120}),
        ),
    ],
)
def test_auto_and_zero_become_what_applies(section: Environment, resolved: tuple[object, ...]) -> None:
    found = resolve(section)
    assert (found.observation, found.frame_skip, found.frame_stack, found.options) == resolved
    assert resolve(found) == found


@pytest.mark.parametrize(
    ("identifier", "sampled", "drawn"),
    [
        ("CartPole-v1", "auto", False),
        ("ALE/Pong-v5", "auto", True),
        ("CartPole-v1", True, True),
        ("ALE/Pong-v5", False, False),
    ],
)
def test_an_agent_is_evaluated_with_drawn_actions_in_ale_games(identifier: str, sampled: Any, drawn: bool) -> None:
    settings = Settings(environment=Environment(id=identifier), evaluation=Evaluation(sampled=sampled))
    assert draws_actions(settings) is drawn


def test_what_is_not_auto_stays() -> None:
    section = Environment(id="CartPole-v1", num_envs=3, max_episode_steps=9, step_seconds=0.5, reward_clip=1.0)
    found = resolve(section)
    assert (found.num_envs, found.max_episode_steps, found.step_seconds, found.reward_clip) == (3, 9, 0.5, 1.0)


def test_atari_games_have_no_state() -> None:
    assert is_atari("ale_py:ALE/Pong-v5")
    assert not is_atari("PALE/Pong-v5")
    with pytest.raises(ConfigurationError, match=r"environment\.observation: ALE/Pong-v5 gives frames only"):
        resolve(Environment(id="ALE/Pong-v5", observation="state"))
    with pytest.raises(ConfigurationError, match=r"environment\.wrappers: ALE games take none"):
        resolve(Environment(id="ALE/Pong-v5", wrappers=["a:B"]))
    with pytest.raises(ConfigurationError, match=r"environment\.action_masks: ALE/Pong-v5 does not say which"):
        resolve(Environment(id="ALE/Pong-v5", action_masks=True))


def test_something_of_a_picture_must_be_left() -> None:
    with pytest.raises(ConfigurationError, match=r"crop_top \+ environment\.crop_bottom = 0\.95: must be at most 0\.9"):
        resolve(Environment(crop_top=0.5, crop_bottom=0.45))


@pytest.mark.parametrize("identifier", ["CartPole-v1", "FlappyBird-v0", "ALE/Pong-v5"])
def test_known_ids_are_found(identifier: str) -> None:
    assert find_spec(identifier).id == identifier
    assert identifier in known()


def test_a_module_before_the_id_is_imported() -> None:
    assert find_spec("broken_environments:Grid-v0").id == "Grid-v0"


def test_a_class_in_a_module_needs_no_registration() -> None:
    spec = find_spec("broken_environments:Counter")
    assert (spec.id, spec.max_episode_steps) == ("Counter", None)
    assert make(Environment(id="broken_environments:Counter"), num_envs=2, seed=1).reset().shape == (2, 2)


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ("CartPol-v1", "environment CartPol-v1 does not exist; did you mean .*CartPole-v1"),
        ("CartPole-v7", "environment CartPole-v7 does not exist; did you mean .*CartPole-v1"),
        ("FlapyBird-v0", r"did you mean FlappyBird-v0\?"),
        ("ALE/Pongg-v5", "did you mean ALE/Pong-v5"),
        ("ALE/Breakout-v4", r"environment ALE/Breakout-v4 does not exist; did you mean ALE/Breakout-v5\?"),
        ("ALE/Pong", "did you mean ALE/Pong-v5"),
        ("xyzzy", "environment xyzzy does not exist; the module it is in goes before it: module:Id-v0"),
        ("broken_environments:Gridd-v0", "did you mean .*Grid-v0"),
        ("broken_environments:Countr", r"broken_environments.py\) has no environment Countr; did you mean Counter"),
        ("broken_environments:np", "has no environment np; it has .*Counter"),
        ("gymnasium:CartPol-v1", "environment CartPol-v1 does not exist; did you mean CartPole-v1"),
        ("json:Grid", "json .* has no environment Grid"),
        ("no_such_module:Grid-v0", "no_such_module:Grid-v0: no module named no_such_module .*start a3cd in the folder"),
        ("no_such.module:Grid-v0", "no module named no_such "),
    ],
)
def test_what_is_missing_is_named_in_one_line(identifier: str, message: str) -> None:
    with pytest.raises(EnvironmentMissingError, match=message) as caught:
        find_spec(identifier)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("identifier", "module", "extra"),
    [("FlappyBird-v0", "flappy_bird_gymnasium", "flappy"), ("ALE/Pong-v5", "ale_py", "atari")],
)
def test_a_package_that_is_not_installed_is_named_with_its_extra(
    identifier: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == module else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(EnvironmentMissingError, match=rf"needs the package {module}.*pip install 'a3cd\[{extra}\]'"):
        find_spec(identifier)
    assert known()


@pytest.mark.parametrize(
    ("section", "name"),
    [
        (Environment(id="CartPole-v1"), ""),
        (Environment(id="CartPole-v1", observation="frames"), "window"),
        (Environment(id="FlappyBird-v0"), "flappy"),
        (Environment(id="flappy_bird_gymnasium:FlappyBird-v0"), "flappy"),
        (Environment(id="ALE/Pong-v5"), "atari"),
        (Environment(id="ale_py:ALE/Pong-v5"), "atari"),
        (Environment(id="LunarLander-v3"), "box2d"),
        (Environment(id="Hopper-v5"), "mujoco"),
        (Environment(id="my_games:Hopper-v5"), ""),
        (Environment(id="NotHere-v0"), ""),
    ],
)
def test_the_extra_that_brings_an_environment(section: Environment, name: str) -> None:
    assert extra(section) == name


def test_the_cure_is_a3cds_own_extra() -> None:
    assert own_cure('run `pip install "gymnasium[classic-control]"`') == "run pip install 'a3cd[window]'"
    assert own_cure("pip install gymnasium[box2d]") == "pip install 'a3cd[box2d]'"
    assert own_cure("pip install gymnasium[other] x") == "pip install gymnasium[other] x"


def test_a_module_that_fails_is_named_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_environments.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EnvironmentMissingError, match="importing failing_environments failed: ZeroDivisionError"):
        find_spec("failing_environments:Any-v0")
    assert "failing_environments" not in sys.modules


@pytest.mark.parametrize(
    ("changed", "steps"),
    [
        ({"id": "CartPole-v1"}, 500),
        ({"id": "CartPole-v1", "max_episode_steps": 70}, 70),
        ({"id": "CartPole-v1", "frame_skip": 3}, 167),
        ({"id": "CartPole-v1", "frame_skip": 3, "max_episode_steps": 70}, 70),
        ({"id": "CartPole-v1", "wrappers": ["gymnasium.wrappers:RescaleObservation"], "max_episode_steps": 70}, 0),
        ({"id": "CartPole-v1", "wrappers": ["gymnasium.wrappers:RescaleObservation"], "frame_skip": 3}, 0),
        ({"id": "ALE/Pong-v5"}, 27_001),
        ({"id": "FlappyBird-v0"}, 0),
    ],
)
def test_the_longest_episode_is_known_where_something_ends_it(changed: dict[str, Any], steps: int) -> None:
    assert longest_episode(resolve(Environment(**changed))) == steps
