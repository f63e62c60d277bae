"""The contract of Environments, held by every way to make one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import gymnasium
import numpy as np
import pytest

from common.rl.environments.base import Environments, env_seed
from common.rl.environments.make import make
from common.settings.sections import Environment

BROKEN = "broken_environments:"
SECTIONS = {
    "vector": Environment(id="CartPole-v1", num_envs=8),
    "vector, limited": Environment(id="CartPole-v1", num_envs=8, max_episode_steps=7),
    "sequential": Environment(id="FlappyBird-v0", num_envs=2, max_episode_steps=20),
    "offset discrete": Environment(id=BROKEN + "Grid-v0", num_envs=2, max_episode_steps=9),
    "pictures": Environment(id=BROKEN + "Picture-v0", num_envs=2, frame_stack=2),
    "repeated, stacked, paced": Environment(
        id="CartPole-v1", num_envs=2, frame_skip=2, frame_stack=3, step_seconds=1e-6
    ),
    "frames": Environment(id="CartPole-v1", num_envs=2, observation="frames", frame_skip=4, max_episode_steps=4),
    "atari": Environment(id="ALE/Pong-v5", num_envs=2, max_episode_steps=20),
}


@pytest.fixture(params=SECTIONS, scope="module")
def environments(request: pytest.FixtureRequest) -> Iterator[Environments]:
    section = SECTIONS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(request.path.parent))
        batch = make(section, num_envs=section.num_envs, seed=3)
    yield batch
    batch.close()


def play(environments: Environments, seed: int | None, steps: int = 45) -> list[tuple[np.ndarray, ...]]:
    """Copies of everything the batch gave, the reset first."""
    choices = np.random.default_rng(0).integers(environments.action.width, size=(steps, environments.count))
    nothing = np.zeros(environments.count)
    history = [(environments.reset(seed).copy(), nothing, nothing, nothing)]
    history += [tuple(array.copy() for array in environments.step(row)[:4]) for row in choices]
    return history


def test_shapes_and_types_are_as_declared(environments: Environments) -> None:
    spec, count = environments.observation, environments.count
    for observations, rewards, terminated, truncated in play(environments, None)[1:]:
        assert observations.shape == (count, *spec.shape)
        assert observations.dtype == spec.dtype
        assert spec.kind != "discrete" or (observations.min() >= 0 and observations.max() < spec.size)
        assert (rewards.shape, rewards.dtype) == ((count,), np.float32)
        assert (terminated.shape, terminated.dtype) == ((count,), np.bool_)
        assert (truncated.shape, truncated.dtype) == ((count,), np.bool_)


def test_the_step_after_an_end_is_a_dummy(environments: Environments) -> None:
    history = play(environments, 1)
    resets = 0
    for (_, _, terminated, truncated), after in pairwise(history):
        ended = np.logical_or(terminated, truncated)
        resets += np.count_nonzero(ended)
        assert not after[1][ended].any()
        assert not after[2][ended].any()
        assert not after[3][ended].any()
    assert resets > 0


def test_the_same_seed_gives_the_same_history(environments: Environments) -> None:
    for once, again in zip(play(environments, 5), play(environments, 5), strict=True):
        for expected, found in zip(once, again, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_reset_without_a_seed_takes_the_one_of_make(environments: Environments) -> None:
    for expected, found in zip(play(environments, 3, 20), play(environments, None, 20), strict=True):
        np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.parametrize("seed", [0, 1])
def test_copies_and_actors_differ(seed: int) -> None:
    firsts = []
    for actor in (seed, seed + 1):
        batch = make(Environment(id=BROKEN + "Counter-v0"), num_envs=4, seed=actor)
        firsts += batch.reset()[:, 0].tolist()
    assert len(set(firsts)) == 8


def test_a_gymnasium_loop_sees_the_same_episode() -> None:
    batch = make(Environment(id="MountainCar-v0"), num_envs=3, seed=9)
    alone = gymnasium.make("MountainCar-v0")
    choices = np.random.default_rng(2).integers(3, size=201)
    observation, _ = alone.reset(seed=env_seed(9, 2))
    np.testing.assert_array_equal(batch.reset()[2], observation)
    for action in choices[:200]:
        observation, reward, terminated, truncated, _ = alone.step(action)
        step = batch.step(np.full(3, action))
        np.testing.assert_array_equal(step.observations[2], observation)
        assert (step.rewards[2], step.terminated[2], step.truncated[2]) == (reward, terminated, truncated)
    assert truncated
    observation, _ = alone.reset()
    np.testing.assert_array_equal(batch.step(choices[200:].repeat(3)).observations[2], observation)


def test_seeds_differ_for_neighbouring_actors_and_copies() -> None:
    seeds = {env_seed(seed, copy) for seed in range(40) for copy in range(40)}
    assert len(seeds) == 1600


def test_a_seed_is_the_same_on_every_machine_and_fits_31_bits() -> None:
    assert env_seed(7, 3) == 1733098030
    assert all(0 <= env_seed(seed, 0) < 2**31 for seed in range(500))
