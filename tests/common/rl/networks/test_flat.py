"""One vector for all parameters, one for all gradients."""

import pytest
import torch

from common.rl.action_spec import discrete
from common.rl.networks.flat import FlatParameters, flatten
from common.rl.networks.heads import PolicyValue
from common.rl.networks.registry import build
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Network

BOX = ObservationSpec((4,), "box", 4)
PICTURE = ObservationSpec((2, 36, 36), "pixels", 2 * 36 * 36)
PARTS = [(Network(), BOX), (Network(shared=False), BOX), (Network(), PICTURE)]


def make(section: Network, observation: ObservationSpec) -> tuple[PolicyValue, FlatParameters, torch.Tensor]:
    network = build(section, observation, discrete(3), seed=1)
    x = torch.randint(0, 200, (6, *observation.shape), generator=torch.Generator().manual_seed(0))
    return network, flatten(network), x.to(torch.uint8 if observation is PICTURE else torch.float32)


@pytest.mark.parametrize(("section", "observation"), PARTS)
def test_flattening_changes_no_value(section: Network, observation: ObservationSpec) -> None:
    plain = build(section, observation, discrete(3), seed=1)
    network, flat, x = make(section, observation)
    assert torch.equal(network.features(x), plain.features(x))
    assert flat.size == sum(parameter.numel() for parameter in plain.parameters())
    assert flat.layout == tuple((name, tuple(p.shape)) for name, p in plain.named_parameters())
    assert torch.equal(flat.vector, torch.cat([p.detach().flatten() for p in plain.parameters()]))


@pytest.mark.parametrize(("section", "observation"), PARTS)
def test_views_survive_backward_and_zero(section: Network, observation: ObservationSpec) -> None:
    network, flat, x = make(section, observation)
    addresses = [(p.data_ptr(), p.grad.data_ptr()) for p in network.parameters() if p.grad is not None]
    network.features(x).sum().backward()
    once = flat.gradient.clone()
    assert once.abs().sum() > 0
    network.features(x).sum().backward()
    torch.testing.assert_close(flat.gradient, 2 * once)
    flat.zero()
    assert not flat.gradient.any()
    network.features(x).sum().backward()
    assert torch.equal(flat.gradient, once)
    assert addresses == [(p.data_ptr(), p.grad.data_ptr()) for p in network.parameters() if p.grad is not None]
    assert len(addresses) == len(flat.layout)


def test_writing_the_vector_changes_the_network() -> None:
    network, flat, x = make(Network(), BOX)
    flat.vector.zero_()
    assert not network.features(x).any()
    before = network.head_weight.numel()
    flat.vector[before : before + network.head_bias.numel()] = 2.0
    assert torch.equal(network.features(x).detach(), torch.full((6, 4), 2.0))


def test_hash_differs_where_networks_differ() -> None:
    pixels = ObservationSpec((4,), "pixels", 4)
    hashes = [
        make(Network(), BOX)[1].hash,
        make(Network(activation="relu"), BOX)[1].hash,
        make(Network(hidden=[64]), BOX)[1].hash,
        make(Network(shared=False), BOX)[1].hash,
        make(Network(), pixels)[1].hash,
    ]
    assert len(set(hashes)) == len(hashes)
    assert hashes[0] == make(Network(), BOX)[1].hash
    assert all(len(text) == 16 and int(text, 16) >= 0 for text in hashes)


def test_other_element_types_are_refused() -> None:
    with pytest.raises(ValueError, match=r"parameter head_weight is torch\.float64, not float32"):
        flatten(build(Network(), BOX, discrete(3), seed=1).double())
