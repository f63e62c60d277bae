"""The network a section means."""

import numpy as np
import pytest
import torch

from common.errors import ConfigurationError
from common.rl.action_spec import discrete
from common.rl.networks.conv import ConvTrunk
from common.rl.networks.dense import DenseTrunk
from common.rl.networks.flat import flatten
from common.rl.networks.heads import Heads
from common.rl.networks.impala import ImpalaTrunk
from common.rl.networks.own import Own
from common.rl.networks.registry import build
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import NETWORKS, Network

BOX = ObservationSpec((4,), "box", 4)
DISCRETE = ObservationSpec((), "discrete", 16)
PICTURE = ObservationSpec((4, 44, 44), "pixels", 4 * 44 * 44)


@pytest.mark.parametrize(
    ("section", "observation", "trunk", "features"),
    [
        (Network(), BOX, DenseTrunk, 128),
        (Network(hidden=[7, 9]), DISCRETE, DenseTrunk, 9),
        (Network(kind="dense"), PICTURE, DenseTrunk, 128),
        (Network(), PICTURE, ConvTrunk, 256),
        (Network(kind="conv-students"), PICTURE, ConvTrunk, 128),
        (Network(kind="conv-nature"), PICTURE, ConvTrunk, 512),
        (Network(kind="conv-impala"), PICTURE, ImpalaTrunk, 256),
    ],
)
@pytest.mark.parametrize("shared", [True, False])
def test_build(section: Network, observation: ObservationSpec, trunk: type, features: int, shared: bool) -> None:
    section = Network(kind=section.kind, hidden=section.hidden, shared=shared)
    network = build(section, observation, discrete(5), seed=1)
    assert isinstance(network, Heads)
    assert [type(part) for part in network.trunks] == [trunk] * (1 if shared else 2)
    assert network.head_weight.shape == (6, features)
    logits, values = network(torch.from_numpy(np.zeros((2, *observation.shape), observation.dtype)))
    assert logits.shape == (2, 5)
    assert values.shape == (2,)


def test_every_kind_of_the_settings_is_another_network() -> None:
    networks = {kind: build(Network(kind=kind), PICTURE, discrete(3), seed=1) for kind in NETWORKS}
    hashes = {kind: flatten(network).hash for kind, network in networks.items()}
    assert hashes.pop("auto") == hashes["conv-a3c"]
    assert len(set(hashes.values())) == len(hashes) == 5


def test_one_of_ones_own() -> None:
    kind = "tests.helpers.own_networks:Small"
    assert isinstance(build(Network(kind=kind), PICTURE, discrete(3), seed=1), Own)


def test_the_seed_decides_the_parameters() -> None:
    first, same, other = (
        torch.cat([p.flatten() for p in build(Network(), BOX, discrete(2), s).parameters()]) for s in (1, 1, 2)
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="use dense"):
        build(Network(kind="conv-a3c"), BOX, discrete(2), 0)
