import numpy as np
import torch

from common.rl.action_spec import discrete
from common.rl.networks.recurrent import Recurrent
from common.rl.networks.recurrent_state import RecurrentState
from common.rl.networks.registry import build
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Network

BOX = ObservationSpec((4,), "box", 4)
X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def test_a_feed_forward_network_has_nothing_to_remember() -> None:
    network = build(Network(), BOX, discrete(2), 0)
    memory = RecurrentState(network, 3)
    first, second = memory.act(X), memory.act(X)
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], network.act(X)[1])
    memory.keep(np.array([True, False, True]))
    assert memory.state() is None


def test_a_recurrent_one_carries_its_state() -> None:
    network = build(Network(lstm=6), BOX, discrete(2), 0)
    assert isinstance(network, Recurrent)
    memory, state = RecurrentState(network, 3), torch.zeros(3, 12)
    for _ in range(3):
        outputs, state = network.step(X, state)
        numbers, values = memory.act(X)
        assert torch.equal(torch.cat([numbers, values.unsqueeze(1)], 1), outputs)
    held = memory.state()
    assert held is not None
    assert torch.equal(held, state)


def test_it_forgets_the_episodes_that_are_over() -> None:
    memory = RecurrentState(build(Network(lstm=6), BOX, discrete(2), 0), 3)
    first, _ = memory.act(X)
    memory.keep(np.array([True, False, True]))
    kept = memory.state()
    assert kept is not None
    assert kept.any(1).tolist() == [True, False, True]
    again, _ = memory.act(X)
    assert torch.allclose(again[1], first[1])
    assert not torch.allclose(again[0], first[0])
    memory.clear()
    assert torch.allclose(memory.act(X)[0], first)


def test_what_was_no_number_is_forgotten_too() -> None:
    memory = RecurrentState(build(Network(lstm=6), BOX, discrete(2), 0), 3)
    memory.act(torch.full((3, 4), torch.nan))
    memory.keep(np.zeros(3, np.bool_))
    assert memory.act(X)[0].isfinite().all()


def test_a_state_given_away_does_not_change() -> None:
    memory = RecurrentState(build(Network(lstm=6), BOX, discrete(2), 0), 3)
    memory.act(X)
    held = memory.state()
    assert held is not None
    before = held.clone()
    memory.act(X)
    memory.keep(np.zeros(3, np.bool_))
    assert torch.equal(held, before)
    held.requires_grad_()  # as no tensor made in inference mode could be
