"""CartPole without velocities, one and many."""

from __future__ import annotations

import numpy as np
import pytest

from common.rl.environments.make import VECTOR_ENVS, make
from common.rl.environments.vector import VectorEnvironments
from common.settings.sections import Environment


@pytest.mark.parametrize("copies", [1, VECTOR_ENVS])
def test_position_and_angle_are_all_that_is_seen(copies: int) -> None:
    hidden, whole = (
        make(Environment(id=name), num_envs=copies, seed=4)
        for name in ("benchmarks.masked:MaskedCartPole-v0", "CartPole-v1")
    )
    assert isinstance(hidden, VectorEnvironments) == (copies == VECTOR_ENVS)
    assert hidden.observation.shape == (2,)
    np.testing.assert_array_equal(hidden.reset(), whole.reset()[:, [0, 2]])
    actions = np.arange(copies) % 2
    for _ in range(30):
        ours, theirs = hidden.step(actions), whole.step(actions)
        np.testing.assert_array_equal(ours.observations, theirs.observations[:, [0, 2]])
        np.testing.assert_array_equal(ours.terminated, theirs.terminated)
    hidden.close()
    whole.close()
