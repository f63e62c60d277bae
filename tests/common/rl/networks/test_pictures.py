"""What networks on pictures do with their values, whatever the layers."""

from functools import partial

import pytest
import torch
from torch import Tensor

from common.errors import ConfigurationError
from common.rl.networks import conv
from common.rl.networks.conv import ConvTrunk
from common.rl.networks.impala import ImpalaTrunk
from common.rl.networks.pictures import PictureTrunk
from common.rl.observation_spec import ObservationSpec

KINDS = {"conv": partial(ConvTrunk, convolutions=conv.A3C[0], units=conv.A3C[1]), "impala": ImpalaTrunk}


def pixels(*shape: int) -> ObservationSpec:
    return ObservationSpec(shape, "pixels", torch.Size(shape).numel())


def some_background(shape: tuple[int, ...]) -> Tensor:
    """Whole grey levels, then the scale of a deviation of 25."""
    levels = torch.randint(0, 256, (torch.Size(shape).numel(),), generator=torch.Generator().manual_seed(3))
    return torch.cat([levels, torch.tensor([1 / 25])])


def plain_scaled(trunk: PictureTrunk, x: Tensor) -> Tensor:
    """In float64: divided by 255, or less the background and divided by its deviation."""
    if trunk.statistics is None:
        return x.double() / 255
    shared = trunk.statistics.shared.double()
    return (x.double() - shared[:-1].view(x.shape[1:])) * shared[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_seen_before_the_background_and_it_may_change_in_place(kind: str) -> None:
    background = some_background((4, 44, 44))
    trunk = KINDS[kind](pixels(4, 44, 44), generator=torch.Generator().manual_seed(0), background=background)
    with torch.no_grad():
        seen = trunk(background[:-1].to(torch.uint8).view(1, 4, 44, 44))
        assert not seen.any()
        background[:-1].fill_(100.0)
        assert not trunk(torch.full((1, 4, 44, 44), 100, dtype=torch.uint8)).any()
        assert trunk(torch.full((1, 4, 44, 44), 150, dtype=torch.uint8)).any()


@pytest.mark.parametrize("kind", KINDS)
def test_weights_for_pictures_of_another_scale_are_of_another_architecture(kind: str) -> None:
    plain, other = (
        KINDS[kind](pixels(4, 44, 44), generator=torch.Generator(), background=one)
        for one in (None, some_background((4, 44, 44)))
    )
    assert plain.architecture != other.architecture


@pytest.mark.parametrize(
    "observation",
    [ObservationSpec((4,), "box", 4), ObservationSpec((4, 84, 84), "box", 4 * 84 * 84), pixels(84, 84)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_other_observations_are_refused_with_what_would_be_right(kind: str, observation: ObservationSpec) -> None:
    with pytest.raises(ConfigurationError, match=r"conv.*takes uint8 pictures.*use dense"):
        KINDS[kind](observation, generator=torch.Generator())
