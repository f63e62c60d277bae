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


def plain_scaled(trunk: PictureTrunk, x: Tensor, block: int = 1) -> Tensor:
    """In float64: divided by 255, or what is in whole blocks of each with mean 0 and nearly deviation 1."""
    if not trunk.architecture.startswith("normalized"):
        return x.double() / 255
    x = x[:, :, : x.shape[2] // block * block, : x.shape[3] // block * block].double()
    variance, mean = torch.var_mean(x, (1, 2, 3), keepdim=True, correction=0)
    return (x - mean) / (variance + 1).sqrt()


@pytest.mark.parametrize("colour", [0, 255])
@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_of_one_colour_is_normalised_to_nothing(kind: str, colour: int) -> None:
    trunk = KINDS[kind](pixels(4, 44, 44), generator=torch.Generator().manual_seed(0), normalize=True)
    with torch.no_grad():
        blank = trunk(torch.full((2, 4, 44, 44), colour, dtype=torch.uint8))
    torch.testing.assert_close(blank, torch.zeros_like(blank), atol=0.05, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_for_pictures_of_another_scale_are_of_another_architecture(kind: str) -> None:
    plain, normalized = (
        KINDS[kind](pixels(4, 44, 44), generator=torch.Generator(), normalize=choice) for choice in (False, True)
    )
    assert plain.architecture != normalized.architecture


@pytest.mark.parametrize(
    "observation",
    [ObservationSpec((4,), "box", 4), ObservationSpec((4, 84, 84), "box", 4 * 84 * 84), pixels(84, 84)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_other_observations_are_refused_with_what_would_be_right(kind: str, observation: ObservationSpec) -> None:
    with pytest.raises(ConfigurationError, match=r"conv.*takes uint8 pictures.*use dense"):
        KINDS[kind](observation, generator=torch.Generator())
