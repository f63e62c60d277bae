from __future__ import annotations

import torch

from common.rl.action_masks import masked
from common.rl.action_spec import discrete
from common.rl.networks.around import peel
from common.rl.networks.heads import Heads
from common.rl.networks.masking import Masked
from common.rl.networks.model import build
from common.rl.networks.normalization import Normalized
from common.rl.observation_spec import ObservationSpec
from tests.helpers.run import settings_of

BOX = ObservationSpec((2,), "box", 2)


def test_what_is_around_a_network_is_taken_off() -> None:
    settings = settings_of("network.normalize=true")
    around, network = peel(build(settings, masked(BOX, discrete(3)), discrete(3)).network)
    assert [type(one) for one in around] == [Masked, Normalized]
    assert isinstance(network, Heads)
    assert peel(network) == ([], network)
    assert [one.architecture.partition(" ")[0] for one in (*around, network)] == ["masked", "normalized", "dense"]
    assert all(one.chunk == network.chunk and one.action == network.action for one in around)


def test_a_twin_has_the_same_statistics_and_other_parameters() -> None:
    model = build(settings_of("network.normalize=true"), masked(BOX, discrete(3)), discrete(3))
    twin = model.twin()
    model.statistics[:] = 0.5
    model.flat.vector.zero_()
    normalized = next(one for one in peel(twin.network)[0] if isinstance(one, Normalized))
    assert normalized.statistics.shared.tolist() == [[0.5] * 2] * 2
    assert torch.count_nonzero(twin.flat.vector)
