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


def test_with_targets_there_is_no_observation_for_bootstrapping() -> None:
    targets = np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match="observations"):
        Rollout(**fields(), targets=targets, advantages=targets)
    for shapes, name in ((((3, 2), (2, 2)), "advantages"), (((2, 2), (3, 2)), "targets")):
        with pytest.raises(ValueError, match=name):
            Rollout(**fields()).apart(*(np.zeros(shape, np.float32) for shape in shapes))


def test_steps_apart_are_columns() -> None:
    targets = np.arange(6, dtype=np.float32).reshape(3, 2)
    apart = Rollout(**fields()).apart(targets, targets + 10)
    assert (apart.actions.shape, apart.observations.shape) == ((1, 6), (1, 6, 3))
    assert apart.valid.tolist() == [[True, True, True, False, True, True]]
    chosen = apart.columns(np.array([5, 2]))
    assert chosen.targets is not None and chosen.targets.tolist() == [[5.0, 2.0]]
    assert chosen.advantages is not None and chosen.advantages.tolist() == [[15.0, 12.0]]


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
