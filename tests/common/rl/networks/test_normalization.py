"""What networks see of observations."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from common.errors import ConfigurationError
from common.rl.action_spec import discrete
from common.rl.moments import Moments
from common.rl.networks.model import build
from common.rl.networks.normalization import Normalized, on_device
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Environment, Network, Settings

BOX = ObservationSpec((2, 2), "box", 4)
PICTURE = ObservationSpec((1, 36, 36), "pixels", 36 * 36)
VALUES = np.random.default_rng(1).normal(size=(500, 5)) * [1, 20, 0, 3, 7] + [0, 5, 1e4, -2, 100]


def settings_of(observations: bool = True, rewards: bool = False, kind: str = "dense") -> Settings:
    return Settings(
        network=Network(kind=kind, normalize=observations), environment=Environment(reward_normalize=rewards)
    )


def test_on_the_way_to_a_gpu_statistics_are_pinned_and_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, object]] = []
    pinned = SimpleNamespace(to=lambda device, non_blocking: asked.append((device, non_blocking)))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pinned)
    on_device(torch.zeros(2), torch.device("cuda:1"))
    assert asked == [(torch.device("cuda:1"), True)]
    assert on_device(torch.ones(2), torch.device("cpu")).tolist() == [1, 1]


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
def test_pictures_are_normalised_by_themselves(kind: str) -> None:
    model, other = (build(settings_of(on, kind=kind), PICTURE, discrete(3)) for on in (True, False))
    assert not model.normalization.observations
    assert model.flat.hash != other.flat.hash
    dark = torch.randint(0, 100, (2, *PICTURE.shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    bright = dark * 2 + 50
    torch.testing.assert_close(model.network.features(dark), model.network.features(bright), atol=1e-3, rtol=1e-2)


def test_normalised_networks_are_others() -> None:
    one, other = (build(settings_of(normalize), BOX, discrete(3)) for normalize in (True, False))
    assert one.flat.hash != other.flat.hash
    assert torch.equal(one.flat.vector, other.flat.vector)
