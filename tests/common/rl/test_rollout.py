"""A rollout's shapes."""

from typing import Any

import pytest
import torch

from common.rl.rollout import Rollout, join
from tests.helpers.rollouts import BOX, make


def fields() -> dict[str, Any]:
    return {
        "observations": torch.zeros(4, 2, 3),
        "actions": torch.zeros(3, 2, dtype=torch.int64),
        "rewards": torch.zeros(3, 2),
        "terminated": torch.zeros(3, 2, dtype=torch.bool),
        "valid": torch.tensor([[True, True], [True, False], [True, True]]),
        "behaviour_log_probs": torch.zeros(3, 2),
    }


def test_steps_are_the_valid_ones() -> None:
    assert Rollout(**fields()).steps == 5


@pytest.mark.parametrize("shape", [(3, 8), (2,), (2, 4, 4)])
def test_so_is_a_state_of_other_environments(shape: tuple[int, ...]) -> None:
    assert Rollout(**fields(), state=torch.zeros(2, 8)).state is not None
    with pytest.raises(ValueError, match="state"):
        Rollout(**fields(), state=torch.zeros(shape))


@pytest.mark.parametrize("name", ["observations", "rewards", "terminated", "valid", "behaviour_log_probs"])
def test_a_shape_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Rollout(**{**fields(), name: fields()[name][:-1]})


def test_columns_of_what_was_joined_are_the_parts() -> None:
    (_, one), (_, other) = make(BOX, 1), make(BOX, 2)
    both = join([one, other])
    assert both.actions.shape == (6, 14)
    for part, columns in ((one, range(7)), (other, range(7, 14))):
        again = both.columns(torch.tensor(columns))
        for name in fields():
            assert torch.equal(getattr(again, name), getattr(part, name)), name
    assert join([one]) is one


def test_a_copy_is_in_memory_of_its_own() -> None:
    _, rollout = make(BOX)
    copy = rollout.copy()
    rollout.observations.zero_()
    rollout.rewards.zero_()
    assert copy.observations.any()
    assert copy.rewards.any()
