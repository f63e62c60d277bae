from __future__ import annotations

import os
from typing import Any

import gymnasium
import msgspec
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import AutoresetMode

from common.errors import ConfigurationError, EnvironmentMissingError
from common.rl.environments.base import Environments
from common.rl.environments.make import make
from common.rl.environments.sequential import SequentialEnvironments
from common.rl.environments.vector import VectorEnvironments
from common.rl.environments.wrappers import PacedEnvironments, StackedEnvironments
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Environment
from tests.helpers.guarded import ACTIONS, ID, ROOMS


def episode_length(environments: Environments, action: int = 0) -> tuple[int, bool]:
    """Steps until the first copy's episode ends, and whether it was cut."""
    environments.reset()
    for length in range(1, 2000):
        step = environments.step(np.full(environments.count, action))
        if step.terminated[0] or step.truncated[0]:
            return length, bool(step.truncated[0])
    raise AssertionError("the episode does not end")


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        (Environment(id="CartPole-v1", num_envs=8), VectorEnvironments),
        (Environment(id="CartPole-v1", num_envs=7), SequentialEnvironments),
        (Environment(id="CartPole-v1", num_envs=8, frame_stack=2), StackedEnvironments),
        (Environment(id="CartPole-v1", num_envs=8, frame_skip=2), SequentialEnvironments),
        (Environment(id="Acrobot-v1", num_envs=8), SequentialEnvironments),
        (Environment(id="Acrobot-v1", num_envs=2, step_seconds=0.001), PacedEnvironments),
    ],
)
def test_the_fastest_that_fits_is_taken(section: Environment, kind: type[Environments]) -> None:
    environments = make(section, num_envs=section.num_envs, seed=0)
    assert type(environments) is kind
    assert environments.count == section.num_envs
    environments.close()


class SameStepVector(CartPoleVectorEnv):
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 gymnasium's own declaration


def test_a_vector_with_another_reset_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = gymnasium.spec("CartPole-v1")
    monkeypatch.setattr(spec, "vector_entry_point", SameStepVector)
    assert type(make(Environment(id="CartPole-v1"), num_envs=8, seed=0)) is SequentialEnvironments


@pytest.mark.parametrize("settings", [{}, {"max_episode_steps": 8}, {"max_episode_steps": 900}])
def test_the_time_limit_is_the_environments_or_the_sections(settings: dict[str, Any]) -> None:
    limit = settings.get("max_episode_steps", 50)
    section = Environment(id="broken_environments:Counter-v0", options={"length": 1000}, **settings)
    assert episode_length(make(section, num_envs=1, seed=0)) == (limit, True)


@pytest.mark.parametrize("copies", [1, 8])
@pytest.mark.parametrize(("limit", "expected"), [(0, 500), (12, 12)])
def test_the_vectors_time_limit_too(limit: int, expected: int, copies: int) -> None:
    environments = make(Environment(id="CartPole-v1", max_episode_steps=limit), num_envs=copies, seed=0)
    observations = environments.reset()
    length, over = 0, False
    while not over:
        length += 1
        # Leaning the way the pole falls keeps it up.
        push = (observations[:, 2] + 0.3 * observations[:, 3] + 0.02 * observations[:, 0] > 0).astype(np.int64)
        observations, _, terminated, truncated, _ = environments.step(push)
        over = bool(terminated[0] or truncated[0])
    assert (length, bool(terminated[0]), bool(truncated[0])) == (expected, False, True)


@pytest.mark.parametrize(("limit", "expected"), [(0, 17), (5, 5)])
def test_under_repeated_actions_the_environments_limit_counts_its_own_steps(limit: int, expected: int) -> None:
    section = Environment(
        id="broken_environments:Counter-v0", options={"length": 1000}, frame_skip=3, max_episode_steps=limit
    )
    environments = make(section, num_envs=1, seed=0)
    assert environments.frames_per_step == 3
    assert episode_length(environments) == (expected, True)


@pytest.mark.parametrize(("limit", "expected"), [(0, 3), (10, 10)])
def test_wrappers_of_the_registration_stay(limit: int, expected: int) -> None:
    section = Environment(id="broken_environments:CounterOfPairs-v0", max_episode_steps=limit)
    environments = make(section, num_envs=1, seed=0)
    environments.reset()
    assert environments.step(np.zeros(1, np.int64)).rewards.tolist() == [2.0]
    assert episode_length(environments) == (expected, True)


def test_no_wrapper_of_gymnasiums_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    original = gymnasium.make

    def recorded(*arguments: Any, **options: Any) -> Any:
        made.append(original(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(gymnasium, "make", recorded)
    make(Environment(id="FlappyBird-v0"), num_envs=2, seed=0)
    assert [environment is environment.unwrapped for environment in made] == [True, True]
    assert gymnasium.spec("FlappyBird-v0").order_enforce


def test_flappy_bird_has_twelve_features_unless_told_otherwise() -> None:
    assert make(Environment(id="FlappyBird-v0"), num_envs=1, seed=0).observation.shape == (12,)
    rays = Environment(id="FlappyBird-v0", options={"use_lidar": True})
    assert make(rays, num_envs=1, seed=0).observation.shape == (180,)


def test_frames_show_what_happens() -> None:
    environments = make(Environment(id="FlappyBird-v0", observation="frames", frame_skip=2), num_envs=2, seed=0)
    first = environments.reset()
    assert (first.shape, first.dtype) == ((2, 4, 84, 84), np.uint8)
    np.testing.assert_array_equal(first[:, :1], first[:, 1:2])
    assert first.std() > 10
    before = first.copy()
    after = environments.step(np.ones(2, np.int64)).observations
    np.testing.assert_array_equal(after[:, :3], before[:, 1:])
    assert (after[:, 3] != before[:, 3]).any()
    environments.close()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("OddSpace-v0", "OddSpace-v0: action space Tuple.* is not supported; Discrete, MultiDiscrete and Box are"),
        ("OddObservation-v0", "OddObservation-v0: observation space Dict.* is not supported; Box, Discrete"),
        ("OldReset-v0", r"OldReset-v0: it has the interface of Gym before 0\.26; gymnasium's is reset\(seed="),
        ("RaisesAtStart-v0", "cannot be made: RuntimeError: the licence has run out, see the manual"),
    ],
)
def test_what_cannot_be_made_is_named_in_one_line(section: str, message: str) -> None:
    with pytest.raises(EnvironmentMissingError, match=message) as caught:
        make(Environment(id=f"broken_environments:{section}"), num_envs=1, seed=0)
    assert "\n" not in str(caught.value)


def test_an_option_the_environment_does_not_take_is_named() -> None:
    with pytest.raises(
        EnvironmentMissingError, match=r"options: CartPole-v1 takes no gravitas, but sutton_barto_reward"
    ):
        make(Environment(id="CartPole-v1", options={"gravitas": 3}), num_envs=1, seed=0)


@pytest.mark.parametrize("skip", [1, 2])
@pytest.mark.parametrize(("name", "doing"), [("OldStep", "step"), ("OldAnswer", "reset")])
def test_the_old_interface_shows_when_it_is_played_and_is_refused_for_good(name: str, doing: str, skip: int) -> None:
    section = Environment(id=f"broken_environments:{name}-v0", frame_skip=skip)
    environments = make(section, num_envs=1, seed=0)
    message = rf"environment broken_environments:{name}-v0: it has the interface of Gym before 0\.26.*\({doing}: "
    with pytest.raises(EnvironmentMissingError, match=message):
        environments.reset()
        environments.step(np.zeros(1, np.int64))
    environments.close()


@pytest.mark.parametrize(
    "section", [Environment(id="ale_py:BreakoutNoFrameskip-v4"), Environment(id="ale_py:Breakout-v4")]
)
def test_a_game_that_gives_the_raw_screen_is_refused_with_the_id_of_the_same_game(section: Environment) -> None:
    with pytest.raises(
        EnvironmentMissingError, match=r"it gives the whole screen, raw; ALE/Breakout-v5 is the same game"
    ):
        make(section, num_envs=1, seed=0)
    memory = msgspec.structs.replace(section, options={"obs_type": "ram"})
    environments = make(memory, num_envs=1, seed=0)
    assert environments.observation.shape == (128,)
    environments.close()


def test_a_missing_package_of_gymnasiums_is_named_by_our_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def creator(**_: Any) -> None:
        raise DependencyNotInstalled(
            'Box2D is not installed, you can install it by run `pip install "gymnasium[box2d]"`'
        )

    monkeypatch.setattr(gymnasium.registry["LunarLander-v3"], "entry_point", creator)
    with pytest.raises(
        EnvironmentMissingError, match=r"Lander-v3 cannot be made: Box2D .* run pip install 'a3cd\[box2d\]'$"
    ):
        make(Environment(id="LunarLander-v3"), num_envs=1, seed=0)


def test_frames_of_what_draws_none_are_refused() -> None:
    with pytest.raises(EnvironmentMissingError, match="Counter-v0: it draws no pictures; use observation = 'state'"):
        make(Environment(id="broken_environments:Counter-v0", observation="frames"), num_envs=1, seed=0)


def test_lives_are_of_ale_games() -> None:
    with pytest.raises(ConfigurationError, match="terminal_on_life_loss: ALE games have lives, CartPole-v1 has none"):
        make(Environment(id="CartPole-v1", terminal_on_life_loss=True), num_envs=1, seed=0)


def test_observations_made_of_parts_are_one_vector() -> None:
    environments = make(Environment(id="broken_environments:Mixed-v0"), num_envs=2, seed=0)
    assert environments.observation == ObservationSpec((20,), "box", 20)
    drawn = environments.reset()[:, 0].tolist()
    step = environments.step(np.array([[0.5, -1, 9], [-9, 9, 0]], np.float32))
    np.testing.assert_allclose(step.rewards, [1 + 0 - 0.5, -2 + 10 - 0.75])
    for row, first in zip(step.observations.tolist(), drawn, strict=True):
        # drawn, parity, the two clocks, the picture: keys in the order of the space, not of the observation
        np.testing.assert_allclose(row, [first, 0, 1, 0, 1, 0, 1, 0, *[10] * 12])


def test_drawing_needs_no_display_unless_the_operator_chose_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    for chosen in ("dummy", "x11"):
        make(Environment(), num_envs=1, seed=0)
        assert os.environ["SDL_VIDEODRIVER"] == chosen
        monkeypatch.setenv("SDL_VIDEODRIVER", "x11")


@pytest.mark.parametrize(
    ("section", "why"),
    [
        (
            {"id": "CartPole-v1"},
            r'^environment CartPole-v1: environment.action_masks = true, but info has no "action_mask"',
        ),
        ({"id": "Pendulum-v1"}, "Pendulum-v1 has a Box"),
        ({"id": "ALE/Pong-v5"}, "ALE/Pong-v5 does not say which actions are allowed"),
    ],
)
def test_masks_are_of_environments_that_have_some(section: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make(Environment(action_masks=True, **section), num_envs=9, seed=0)


def test_masks_are_taken_behind_wrappers_too() -> None:
    """Stacking puts the observation in four parts; the mask is behind it once."""
    section = Environment(
        id=ID,
        action_masks=True,
        options={"numbers": True},
        wrappers=["gymnasium.wrappers:FrameStackObservation"],
        wrapper_options={"FrameStackObservation": {"stack_size": 4}},
    )
    made = make(section, num_envs=2, seed=0)
    assert made.observation.bare.shape == (4, 1, ROOMS)
    assert made.reset().shape == (2, 4 * ROOMS + ACTIONS)
