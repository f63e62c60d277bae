from __future__ import annotations

import contextlib
from typing import NoReturn

import numpy as np
import pytest

from common.errors import ConfigurationError, EnvironmentMissingError
from common.rl.environments.atari import kept_rows
from common.rl.environments.base import Environments
from common.rl.environments.make import make
from common.settings.sections import Environment, Scalar


def atari(game: str = "Pong", **settings: object) -> Environments:
    return make(Environment(id=f"ALE/{game}-v5", **settings), num_envs=2, seed=0)  # type: ignore[arg-type]


def test_frames_are_four_grey_ones_over_four_emulator_frames() -> None:
    environments = atari()
    assert environments.observation.shape == (4, 84, 84)
    assert environments.frames_per_step == 4
    assert environments.action.width == 6
    environments.reset()
    before = environments.step(np.zeros(2, np.int64)).observations.copy()
    after = environments.step(np.zeros(2, np.int64)).observations
    np.testing.assert_array_equal(after[:, :3], before[:, 1:])
    assert environments.render().shape == (84, 84, 3)
    np.testing.assert_array_equal(environments.render()[:, :, 1], after[0, 3])
    environments.close()


def test_size_skip_stack_and_limit_are_the_sections() -> None:
    environments = atari(frame_size=44, frame_skip=2, frame_stack=3, max_episode_steps=5)
    assert environments.reset().shape == (2, 3, 44, 44)
    assert environments.frames_per_step == 2
    cut = [environments.step(np.zeros(2, np.int64)).truncated.tolist() for _ in range(11)]
    assert [index for index, row in enumerate(cut) if all(row)] == [4, 10]
    assert [index for index, row in enumerate(cut) if any(row)] == [4, 10]
    environments.close()


@pytest.mark.parametrize(("top", "bottom", "first"), [(0.5, 0.0, 42), (0.0, 0.5, 0), (0.25, 0.25, 21)])
def test_cropped_frames_show_rows_of_the_whole_screen(top: float, bottom: float, first: int) -> None:
    whole, cropped = atari(frame_size=84), atari(frame_size=42, crop_top=top, crop_bottom=bottom)
    assert cropped.observation.shape == (4, 42, 42)
    pairs = [(whole.reset(), cropped.reset())]
    for action in np.random.default_rng(0).integers(6, size=40):
        one, other = (batch.step(np.full(2, action)) for batch in (whole, cropped))
        pairs.append((one.observations, other.observations))
    for screen, seen in pairs:
        rows = screen[:, :, first : first + 42].reshape(2, 4, 42, 42, 2)
        np.testing.assert_allclose(seen, rows.mean(axis=4), atol=1.5)
    assert np.ptp(pairs[-1][1]) > 50
    whole.close()
    cropped.close()


@pytest.mark.parametrize("size", range(36, 90, 7))
@pytest.mark.parametrize(("top", "bottom"), [(0.16, 0.075), (0.3, 0.0), (0.0, 0.01), (0.9, 0.0), (0.45, 0.45)])
def test_however_much_is_cut_off_as_many_rows_are_left(size: int, top: float, bottom: float) -> None:
    height, rows = kept_rows(Environment(frame_size=size, crop_top=top, crop_bottom=bottom))
    assert rows.stop - rows.start == size and rows.start >= 0 and rows.stop <= height
    assert abs(rows.start - top * height) <= 1 and abs(height - rows.stop - bottom * height) <= 1


def test_rewards_are_not_clipped() -> None:
    environments = atari("Tutankham", options={"repeat_action_probability": 0.0})
    environments.reset()
    random = np.random.default_rng(0)
    rewards = {float(r) for _ in range(300) for r in environments.step(random.integers(8, size=2)).rewards}
    assert max(rewards) > 1
    environments.close()


@pytest.mark.parametrize(("options", "actions"), [({}, 6), ({"full_action_space": True}, 18)])
def test_options_reach_the_emulator(options: dict[str, Scalar], actions: int) -> None:
    environments = atari(options=options)
    assert environments.action.width == actions
    environments.close()


STILL: dict[str, Scalar] = {"repeat_action_probability": 0.0, "noop_max": 0}


@pytest.mark.parametrize(
    ("options", "alike"), [(STILL, True), ({"noop_max": 0}, False), (STILL | {"noop_max": 30}, False)]
)
def test_games_differ_by_sticky_actions_and_by_no_ops(options: dict[str, Scalar], alike: bool) -> None:
    """Of the same actions; the two copies have seeds of their own."""
    environments = atari(options=options)
    environments.reset()
    for action in np.random.default_rng(0).integers(6, size=30):
        observations = environments.step(np.full(2, action)).observations
    assert np.array_equal(*observations) == alike
    environments.close()


def test_what_is_usual_is_sticky_and_begins_with_no_ops_and_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    def noted(**arguments: object) -> NoReturn:
        given.update(arguments)
        raise StopIteration

    monkeypatch.setattr("ale_py.vector_env.AtariVectorEnv", noted)
    with contextlib.suppress(EnvironmentMissingError, StopIteration):
        atari()
    assert given["repeat_action_probability"] == 0.25
    assert (given["noop_max"], given["use_fire_reset"], given["maxpool"]) == (30, True, True)
    assert (given["episodic_life"], given["full_action_space"], given["frameskip"]) == (False, False, 4)
    assert given["max_num_frames_per_episode"] == 108_000


@pytest.mark.parametrize("fire", [True, False])
def test_fire_is_pressed_when_a_game_begins_unless_the_options_say_otherwise(fire: bool) -> None:
    environments = atari("Breakout", terminal_on_life_loss=True, options=STILL | {"use_fire_reset": fire})
    environments.reset()
    lost = sum(environments.step(np.zeros(2, np.int64)).futureless.astype(int) for _ in range(100))
    assert np.asarray(lost).tolist() == [int(fire)] * 2, "without another FIRE there is no second ball"
    environments.close()


def test_a_picture_is_the_larger_of_two() -> None:
    pooled, plain = (atari("SpaceInvaders", options=STILL | {"maxpool": pooled}) for pooled in (True, False))
    pooled.reset()
    plain.reset()
    largest = 0
    for _ in range(60):
        both = [one.step(np.ones(2, np.int64)).observations[:, -1].astype(int) for one in (pooled, plain)]
        assert (both[0] >= both[1]).all()
        largest = max(largest, int((both[0] - both[1]).max()))
    assert largest > 50, "a shot is drawn in every other frame"
    pooled.close()
    plain.close()


def test_options_that_are_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"frameskip, num_threads cannot be set; environment\.frame_size"):
        atari(options={"num_threads": 4, "frameskip": 2})


@pytest.mark.parametrize("option", ["episodic_life", "life_loss_info"])
def test_lives_are_the_business_of_their_setting(option: str) -> None:
    named = rf"environment\.options: {option} cannot be set; environment\.terminal_on_life_loss can"
    with pytest.raises(ConfigurationError, match=named):
        atari(options={option: True})


def test_unknown_options_are_refused() -> None:
    with pytest.raises(EnvironmentMissingError, match=r"ALE/Pong-v5 cannot be made: TypeError.*'nonsense'"):
        atari(options={"nonsense": 1})


@pytest.mark.slow
def test_a_lost_life_ends_the_future_and_not_the_game() -> None:
    environments = atari("Breakout", terminal_on_life_loss=True)
    plain = atari("Breakout")
    environments.reset()
    plain.reset()
    random = np.random.default_rng(0)
    lost, games = np.zeros(2, np.int64), np.zeros(2, np.int64)
    while games.min() < 2:
        actions = random.integers(4, size=2)
        step, same = environments.step(actions), plain.step(actions)
        assert same.life_lost is None and same.futureless is same.terminated
        np.testing.assert_array_equal(step.terminated, same.terminated)
        np.testing.assert_array_equal(step.observations, same.observations)
        assert step.life_lost is not None
        np.testing.assert_array_equal(step.futureless, step.terminated | step.life_lost)
        lost += step.futureless & (games < 2)
        games += step.terminated
    assert lost.tolist() == [10, 10]  # five lives a game
    environments.close()
    plain.close()
