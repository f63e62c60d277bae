"""The initial parameters."""

import pytest
import torch

from common.rl.networks.trunk import Trunk, orthogonal, zeros


def test_rows_are_orthogonal_with_the_gain_as_length() -> None:
    weight = orthogonal(6, 2, 2, 5, gain=0.5, generator=torch.Generator().manual_seed(1)).detach().flatten(1)
    torch.testing.assert_close(weight @ weight.T, 0.25 * torch.eye(6), atol=1e-6, rtol=0)


def test_the_generator_decides_and_the_global_one_is_left_alone() -> None:
    before = torch.get_rng_state()
    first, same, other = (orthogonal(3, 3, gain=1.0, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


def test_bias_starts_at_zero() -> None:
    assert torch.equal(zeros(3).detach(), torch.zeros(3))


def test_a_trunk_must_say_how_it_computes() -> None:
    with pytest.raises(NotImplementedError):
        Trunk()(torch.zeros(1))
