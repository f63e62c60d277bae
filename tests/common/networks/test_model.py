"""A model is the network of the settings, its parameters in one vector."""

import torch

from common.networks.action import discrete
from common.networks.model import build
from common.networks.observation import ObservationSpec
from common.settings.sections import Settings

BOX = ObservationSpec((4,), "box", 4)


def test_the_vector_is_the_networks() -> None:
    model = build(Settings(), BOX, discrete(2))
    before, _ = model.network.act(torch.ones(1, 4))
    before = before.clone()
    model.flat.vector.mul_(2)
    after, _ = model.network.act(torch.ones(1, 4))
    assert not torch.equal(before, after)


def test_the_seed_of_the_settings_decides() -> None:
    vectors = [build(Settings(seed=seed), BOX, discrete(2)).flat.vector for seed in (1, 1, 2)]
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.equal(vectors[0], vectors[2])
