import numpy as np
import torch

from common.rl.networks.recurrent_state import RecurrentState


def counting(num_envs: int = 3) -> RecurrentState:
    """Every number of environment b is b + 1."""
    state = RecurrentState(num_envs, 2)
    with torch.inference_mode():  # as a network's step makes it
        state.value = torch.arange(1.0, num_envs + 1).unsqueeze(1).repeat(1, 2)
    return state


def test_the_episodes_that_are_over_are_forgotten() -> None:
    state = counting()
    state.keep(np.array([True, False, True]))
    assert state.value.tolist() == [[1, 1], [0, 0], [3, 3]]
    state.clear()
    assert not state.value.any()


def test_a_state_that_was_no_number_is_forgotten_too() -> None:
    state = RecurrentState(2, 2)
    state.value = torch.full((2, 2), torch.nan)
    state.keep(np.zeros(2, np.bool_))
    assert not state.value.any()


def test_a_state_given_away_does_not_change() -> None:
    state = counting()
    first = state.first()
    assert first is not None
    before = first.clone()
    state.keep(np.zeros(3, np.bool_))
    assert torch.equal(first, before)
    first.requires_grad_()  # as no tensor made in inference mode could be


def test_a_feed_forward_network_has_no_state() -> None:
    state = RecurrentState(3, 0)
    state.keep(np.array([True, False, True]))
    assert state.first() is None
