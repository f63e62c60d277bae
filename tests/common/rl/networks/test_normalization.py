"""What networks see of observations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from common.errors import ConfigurationError
from common.rl.action_spec import discrete
from common.rl.moments import Moments
from common.rl.networks.model import build
from common.rl.networks.normalization import Normalized
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Environment, Network, Settings

BOX = ObservationSpec((2, 2), "box", 4)
PICTURE = ObservationSpec((1, 36, 36), "pixels", 36 * 36)
VALUES = np.random.default_rng(1).normal(size=(500, 5)) * [1, 20, 0, 3, 7] + [0, 5, 1e4, -2, 100]


def settings_of(observations: bool = True, rewards: bool = False, kind: str = "dense") -> Settings:
    return Settings(
        network=Network(kind=kind, normalize=observations), environment=Environment(reward_normalize=rewards)
    )


@pytest.mark.parametrize("kind", ["dense", "tests.helpers.own_networks:Small"])
def test_the_network_sees_deviations_from_the_mean(kind: str) -> None:
    model = build(settings_of(kind=kind), BOX, discrete(3))
    assert isinstance(model.network, Normalized)
    raw = torch.from_numpy(VALUES[:50, :4].astype(np.float32)).view(50, 2, 2)
    plain = model.network.inner.features
    torch.testing.assert_close(model.network.features(raw), plain(raw.clamp(-10, 10)), msg="at first as it is, clipped")
    model.extras[:] = model.normalization.extras(Moments.from_rows(VALUES[:, :4]))
    deviations = [*VALUES.std(axis=0)[:2], 1.0, VALUES.std(axis=0)[3]]  # the third is always the same
    seen = (raw - torch.tensor(VALUES.mean(axis=0)[:4]).view(2, 2)) / torch.tensor(deviations).view(2, 2)
    torch.testing.assert_close(model.network.features(raw), plain(seen.float()), rtol=1e-3, atol=1e-4)
    assert raw.max() > 9e3, "the observations themselves are left alone"


def test_far_from_the_mean_is_clipped() -> None:
    model = build(settings_of(), BOX, discrete(3))
    far = model.network.features(torch.full((1, 2, 2), 1e9))
    torch.testing.assert_close(far, model.network.features(torch.full((1, 2, 2), 10.0)))


@pytest.mark.parametrize("kind", ["dense", "tests.helpers.own_networks:Small"])
@pytest.mark.parametrize("observation", [ObservationSpec((), "discrete", 5), PICTURE])
def test_only_numbers_are_normalised_but_before_convolutions(kind: str, observation: ObservationSpec) -> None:
    with pytest.raises(ConfigurationError, match=rf"network.normalize = true is for .*, not {observation.kind} before"):
        build(settings_of(kind=kind), observation, discrete(3))


@pytest.mark.parametrize("kind", ["conv-a3c", "conv-impala"])
def test_before_convolutions_the_background_is_subtracted(kind: str) -> None:
    model, other = (build(settings_of(on, kind=kind), PICTURE, discrete(3)) for on in (True, False))
    assert not model.normalization.observations
    assert not other.background.size
    assert model.flat.hash != other.flat.hash
    pictures = torch.randint(0, 100, (2, *PICTURE.shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    features = other.network.features(pictures)
    torch.testing.assert_close(model.network.features(pictures), features, msg="at first they are divided by 255")
    model.background[:-1] = 7
    torch.testing.assert_close(model.network.features(pictures + 7), features)


def test_normalised_networks_are_others() -> None:
    one, other = (build(settings_of(normalize), BOX, discrete(3)) for normalize in (True, False))
    assert one.flat.hash != other.flat.hash
    assert torch.equal(one.flat.vector, other.flat.vector)
