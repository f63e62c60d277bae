"""The blocked convolutions against nn.functional.conv2d with the original kernels and strides."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, linear, pixel_unshuffle

from common.errors import ConfigurationError
from common.rl.networks import conv
from common.rl.networks.conv import Convolution, ConvTrunk, pixel_blocks, space_to_depth
from tests.common.rl.networks.test_pictures import pixels, plain_scaled, some_background


def plain_weight(weight: Tensor, convolution: Convolution, channels: int, first: bool) -> Tensor:
    """The kernel (outputs, channels, kernel, kernel) that a blocked weight (outputs, 2, 2, block values) stands for."""
    if not convolution.blocks:
        return weight.permute(0, 3, 1, 2)
    n, s = convolution.channels, convolution.stride
    if first:
        parts = weight.reshape(n, 2, 2, channels, s, s).permute(0, 3, 1, 4, 2, 5)
    else:
        parts = weight.reshape(n, 2, 2, s, s, channels).permute(0, 5, 1, 3, 2, 4)
    return parts.reshape(n, channels, 2 * s, 2 * s)


def plain_features(trunk: ConvTrunk, x: Tensor, convolutions: tuple[Convolution, ...]) -> Tensor:
    x = plain_scaled(trunk, x)
    for index, convolution in enumerate(convolutions):
        weight = getattr(trunk, f"conv{index}_weight").double()
        kernel = plain_weight(weight, convolution, x.shape[1], index == 0)
        assert kernel.shape[2] == convolution.kernel
        x = conv2d(x, kernel, getattr(trunk, f"conv{index}_bias").double(), convolution.stride).relu()
    return linear(x.permute(0, 2, 3, 1).flatten(1), trunk.dense_weight.double(), trunk.dense_bias.double()).relu()


@pytest.mark.parametrize("name", ["A3C", "STUDENTS", "NATURE"])
@pytest.mark.parametrize("shape", [(4, 52, 44), (3, 47, 54), (1, 45, 46)])
@pytest.mark.parametrize("subtracts", [False, True])
def test_equals_plain_convolutions(name: str, shape: tuple[int, ...], subtracts: bool) -> None:
    convolutions, units = getattr(conv, name)
    generator = torch.Generator().manual_seed(5)
    trunk = ConvTrunk(pixels(*shape), convolutions, units, generator, some_background(shape) if subtracts else None)
    for parameter in trunk.parameters():
        parameter.data += 0.02 * torch.randn(parameter.shape, generator=generator)
    x = torch.randint(0, 256, (3, *shape), dtype=torch.uint8, generator=generator)

    ours, plain = trunk(x), plain_features(trunk, x, convolutions)
    torch.testing.assert_close(ours.double(), plain, atol=1e-4, rtol=1e-4)

    direction = torch.randn(ours.shape, generator=generator)
    parameters = list(trunk.parameters())
    expected = torch.autograd.grad(plain, parameters, direction.double())
    for got, want in zip(torch.autograd.grad(ours, parameters, direction), expected, strict=True):
        torch.testing.assert_close(got, want, atol=1e-3, rtol=1e-3)


def test_a3c_has_the_papers_sizes() -> None:
    convolutions, units = conv.A3C
    trunk = ConvTrunk(pixels(4, 84, 84), convolutions, units, torch.Generator())
    assert trunk.conv0_weight.numel() == 16 * 4 * 8 * 8
    assert trunk.conv1_weight.numel() == 32 * 16 * 4 * 4
    assert trunk.dense_weight.shape == (256, 9 * 9 * 32)
    assert trunk.features == 256


def test_nature_has_the_papers_sizes() -> None:
    convolutions, units = conv.NATURE
    trunk = ConvTrunk(pixels(4, 84, 84), convolutions, units, torch.Generator())
    weights = (trunk.conv0_weight, trunk.conv1_weight, trunk.conv2_weight)
    assert [weight.numel() for weight in weights] == [32 * 4 * 8 * 8, 64 * 32 * 4 * 4, 64 * 64 * 3 * 3]
    assert trunk.dense_weight.shape == (512, 7 * 7 * 64)


def test_pixel_blocks_are_those_of_pixel_unshuffle() -> None:
    x = torch.randint(0, 256, (2, 3, 13, 18), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    expected = pixel_unshuffle(x[:, :, :12, :16].float(), 4).permute(0, 2, 3, 1)
    assert torch.equal(pixel_blocks(x), expected)


def test_pixel_blocks_take_a_view_with_gaps() -> None:
    x = torch.randint(0, 256, (4, 2, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(pixel_blocks(x[::2]), pixel_blocks(x[::2].clone()))


def test_space_to_depth_orders_row_column_channel() -> None:
    x = torch.arange(5 * 4 * 3).reshape(1, 5, 4, 3)
    blocks = space_to_depth(x, 2)
    assert blocks.shape == (1, 2, 2, 12)
    expected = torch.cat([x[0, 2, 2], x[0, 2, 3], x[0, 3, 2], x[0, 3, 3]])
    assert torch.equal(blocks[0, 1, 1], expected)


@pytest.mark.parametrize("shape", [(3, 84, 16), (3, 4, 84)])
def test_small_pictures_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError, match="too small"):
        ConvTrunk(pixels(*shape), *conv.A3C, torch.Generator())
