"""A rollout's shapes."""

from typing import Any

import numpy as np
import pytest

from common.rl.rollout import Rollout, join
from tests.helpers.rollouts import BOX, make


def fields() -> dict[str, Any]:
    return {
        "observations": np.zeros((4, 2, 3), np.float32),
        "actions": np.zeros((3, 2), np.int64),
        "rewards": np.zeros((3, 2), np.float32),
        "terminated": np.zeros((3, 2), np.bool_),
        "valid": np.array([[True, True], [True, False], [True, True]]),
        "behaviour_log_probs": np.zeros((3, 2), np.float32),
    }


def test_steps_are_the_valid_ones() -> None:
    assert Rollout(**fields()).steps == 5


@pytest.mark.parametrize("shape", [(3, 8), (2,), (2, 4, 4)])
def test_so_is_a_state_of_other_environments(shape: tuple[int, ...]) -> None:
    assert Rollout(**fields(), state=np.zeros((2, 8), np.float32)).state is not None
    with pytest.raises(ValueError, match="state"):
        Rollout(**fields(), state=np.zeros(shape, np.float32))


@pytest.mark.parametrize("name", ["observations", "rewards", "terminated", "valid", "behaviour_log_probs"])
def test_a_shape_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Rollout(**{**fields(), name: fields()[name][:-1]})


def test_columns_of_what_was_joined_are_the_parts() -> None:
    (_, one), (_, other) = make(BOX, 1), make(BOX, 2)
    both = join([one, other])
    assert both.actions.shape == (6, 14)
    for part, columns in ((one, range(7)), (other, range(7, 14))):
        again = both.columns(np.array(columns))
        for name in fields():
            assert np.array_equal(getattr(again, name), getattr(part, name)), name
    assert join([one]) is one


def test_a_copy_is_in_memory_of_its_own() -> None:
    _, rollout = make(BOX)
    copy = rollout.copy()
    rollout.observations.fill(0)
    rollout.rewards.fill(0)
    assert copy.observations.any()
    assert copy.rewards.any()
