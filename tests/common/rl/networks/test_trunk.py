"""The initial parameters."""

import torch

from common.rl.networks.trunk import Trunk, orthogonal


def test_rows_are_orthogonal_with_the_gain_as_length() -> None:
    weight = orthogonal(6, 2, 2, 5, gain=0.5, generator=torch.Generator().manual_seed(1)).detach().flatten(1)
    torch.testing.assert_close(weight @ weight.T, 0.25 * torch.eye(6), atol=1e-6, rtol=0)


def test_the_generator_decides_and_the_global_one_is_left_alone() -> None:
    before = torch.get_rng_state()
    first, same, other = (orthogonal(3, 3, gain=1.0, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


def test_a_layer_is_registered_under_its_name() -> None:
    trunk = Trunk()
    weight, bias = trunk._layer("first", 6, 4, generator=torch.Generator().manual_seed(1))
    named = dict(trunk.named_parameters())
    assert named["first_weight"] is weight and named["first_bias"] is bias
    assert (weight.shape, bias.tolist()) == ((6, 4), [0.0] * 6)
