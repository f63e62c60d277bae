"""Moments of a rollout against loops. (Rewards: actor/test_collector.py, learner/exchange/test_rollout_buffer.py.)"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.errors import NonFiniteError
from common.rl.normalization import Normalization
from common.rl.rewards import RewardTransform

T, B, GAMMA = 9, 3, 0.7
RNG = np.random.default_rng(3)


def reward_transform(observations: int, *, rewards: bool) -> RewardTransform:
    normalization = Normalization(observations, rewards)
    return RewardTransform(B, gamma=GAMMA, normalization=normalization, extras=normalization.extras())


def rollout() -> tuple[Any, Any, Any]:
    observations = RNG.normal(size=(T, B, 2, 2)).astype(np.float32)
    rewards = RNG.normal(size=(T, B)).astype(np.float32)
    valid = RNG.random((T, B)) < 0.7
    return observations, np.where(valid, rewards, np.float32(0)), valid


@pytest.mark.parametrize(("observations", "rewards"), [(4, True), (4, False), (0, True)])
def test_the_valid_steps_of_rollouts_in_a_row(observations: int, rewards: bool) -> None:
    transform = reward_transform(observations, rewards=rewards)
    sums = [0.0] * B
    for _ in range(3):
        seen, given, valid = rollout()
        vectors = []
        for t in range(T):
            for copy in range(B):
                sums[copy] = GAMMA * sums[copy] + given[t, copy] if valid[t, copy] else 0.0
                if valid[t, copy]:
                    vectors.append([*seen[t, copy].ravel()] * (observations > 0) + [sums[copy]] * rewards)
        counted = transform.apply(seen, given, valid)[1]
        assert counted is not None
        assert counted.count == len(vectors)
        np.testing.assert_allclose(counted.means, np.mean(vectors, axis=0), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(counted.variances, np.var(vectors, axis=0), rtol=1e-5)


def test_a_restart_begins_new_sums() -> None:
    transform, anew = (reward_transform(0, rewards=True) for _ in range(2))
    transform.apply(*rollout())
    transform.restart()
    one = rollout()
    counted, expected = transform.apply(*one)[1], anew.apply(*one)[1]
    assert counted is not None and expected is not None
    assert counted.plain() == expected.plain()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e38])
def test_a_rollout_that_is_dropped_takes_its_steps_along(bad: float) -> None:
    """An episode that ends in it is over; the others go on with what they had."""
    normalization = Normalization(0, rewards=True)
    lost, fine = (
        RewardTransform(B, gamma=GAMMA, scale=100.0, normalization=normalization, extras=normalization.extras())
        for _ in range(2)
    )
    rollouts = [rollout() for _ in range(3)]
    seen, given, valid = rollouts[1]
    valid[0, 0], given[0, 0] = True, 0.0
    broken = given.copy()
    broken[0, 0] = bad
    lost.apply(*rollouts[0])
    with pytest.raises(NonFiniteError):
        lost.apply(seen, broken, valid)
    for one in rollouts[:2]:
        fine.apply(*one)
    expected, found = fine.apply(*rollouts[2])[1], lost.apply(*rollouts[2])[1]
    assert expected is not None and found is not None
    assert found.plain() == expected.plain()


def test_nothing_to_count() -> None:
    seen, rewards, valid = rollout()
    assert reward_transform(0, rewards=False).apply(seen, rewards, valid)[1] is None
    assert reward_transform(4, rewards=True).apply(seen, rewards, np.zeros_like(valid))[1] is None


def test_masks_of_actions_are_not_counted() -> None:
    seen, given, valid = rollout()
    rows = np.concatenate([seen.reshape(T, B, 4), RNG.random((T, B, 3)) < 0.5], axis=2, dtype=np.float32)
    one, other = (reward_transform(4, rewards=True).apply(some, given, valid)[1] for some in (rows, seen))
    assert one is not None and other is not None
    assert one.plain() == other.plain()
