"""The residual network against the same written with torch.nn, in float64."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear, max_pool2d

from common.rl.networks.impala import ImpalaTrunk
from tests.common.rl.networks.test_pictures import pixels, plain_scaled, some_background


def make(*shape: int, seed: int = 5, subtracts: bool = False) -> tuple[ImpalaTrunk, Tensor]:
    """With biases that are not 0, and a batch of pictures."""
    generator = torch.Generator().manual_seed(seed)
    trunk = ImpalaTrunk(pixels(*shape), generator, some_background(shape) if subtracts else None)
    for parameter in trunk.parameters():
        parameter.data += 0.02 * torch.randn(parameter.shape, generator=generator)
    return trunk, torch.randint(0, 256, (3, *shape), dtype=torch.uint8, generator=generator)


def plain(trunk: ImpalaTrunk, pictures: Tensor) -> Tensor:
    def layers() -> Iterator[tuple[Tensor, Tensor]]:
        parameters = iter(list(trunk.parameters()))
        for weight, bias in zip(parameters, parameters, strict=True):
            yield weight.double(), bias.double()

    def conv(x: Tensor) -> Tensor:
        weight, bias = next(layer)
        assert weight.shape[1:3] == (3, 3)
        return conv2d(x, weight.permute(0, 3, 1, 2), bias, padding=1)

    layer = layers()
    x = plain_scaled(trunk, pictures)
    for channels in (16, 32, 32):
        x = max_pool2d(conv(x), 3, stride=2, padding=1)
        assert x.shape[1] == channels
        for _ in range(2):
            x = x + conv(conv(x.relu()).relu())
    weight, bias = next(layer)
    assert list(layer) == []
    return linear(x.relu().permute(0, 2, 3, 1).flatten(1), weight, bias).relu()


@pytest.mark.parametrize("shape", [(4, 24, 20), (3, 17, 26), (1, 3, 1)])
@pytest.mark.parametrize("subtracts", [False, True])
def test_equals_plain_layers(shape: tuple[int, ...], subtracts: bool) -> None:
    trunk, x = make(*shape, subtracts=subtracts)
    ours, expected = trunk(x), plain(trunk, x)
    torch.testing.assert_close(ours.double(), expected, atol=1e-4, rtol=1e-4)

    direction = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1))
    parameters = list(trunk.parameters())
    wanted = torch.autograd.grad(expected, parameters, direction.double())
    for got, want in zip(torch.autograd.grad(ours, parameters, direction), wanted, strict=True):
        assert float(got.abs().max()) > 0
        torch.testing.assert_close(got, want, atol=1e-3, rtol=1e-3)


def test_it_has_the_papers_sizes() -> None:
    trunk, _ = make(4, 84, 84)
    convolutions = [nn.Conv2d(a, b, 3) for n, c in ((4, 16), (16, 32), (32, 32)) for a, b in ((n, c), *[(c, c)] * 4)]
    assert len(convolutions) == 15, "of the paper's figure 3, right"
    expected = sum(parameter.numel() for one in convolutions for parameter in one.parameters())
    assert sum(p.numel() for name, p in trunk.named_parameters() if "section" in name) == expected
    assert trunk.dense_weight.shape == (256, 11 * 11 * 32)
    assert trunk.features == 256


def test_it_changes_no_picture_and_a_view_with_gaps_is_as_good() -> None:
    trunk, x = make(2, 20, 20)
    kept = x.clone()
    torch.testing.assert_close(trunk(x[::2]), trunk(x)[::2])
    assert torch.equal(x, kept)


def test_at_the_start_the_blocks_add_about_as_much_as_comes_in() -> None:
    """Six blocks of full gain would multiply the features by about ten."""
    trunk = ImpalaTrunk(pixels(4, 44, 44), torch.Generator().manual_seed(2))
    x = torch.randint(0, 256, (8, 4, 44, 44), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    whole = trunk(x).detach().std()
    for name, parameter in trunk.named_parameters():
        if "conv1" in name:
            parameter.data.zero_()
    alone = trunk(x).detach().std()
    assert alone < whole < 3 * alone
