"""The written-out way back against autograd through torch's own cell, step by step, in float64."""

import pytest
import torch
from torch import Tensor

from common.rl.networks.lstm import LSTM

STEPS, COPIES, FEATURES, UNITS = 9, 5, 6, 7


def lstm() -> LSTM:
    generator = torch.Generator().manual_seed(3)
    made = LSTM(FEATURES, UNITS, generator).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return made


def inputs(kept: float) -> tuple[Tensor, Tensor, Tensor]:
    """Features, state and keep, the last with this probability."""
    generator = torch.Generator().manual_seed(4)
    features = torch.randn(STEPS + 1, COPIES, FEATURES, generator=generator, dtype=torch.float64)
    state = torch.randn(COPIES, 2 * UNITS, generator=generator, dtype=torch.float64)
    return features.requires_grad_(), state, torch.rand(STEPS, COPIES, generator=generator) < kept


def naive(layer: LSTM, features: Tensor, state: Tensor, keep: Tensor) -> Tensor:
    """Copy by copy and step by step."""
    columns = []
    for copy in range(COPIES):
        h, c = state[copy : copy + 1, :UNITS], state[copy : copy + 1, UNITS:]
        given = []
        for step in range(STEPS + 1):
            x = features[step, copy : copy + 1]
            h, c = torch.lstm_cell(x, (h, c), layer.weight_input, layer.weight_hidden, layer.bias)
            given.append(h)
            if step < STEPS and not keep[step, copy]:
                h, c = torch.zeros_like(h), torch.zeros_like(c)
        columns.append(torch.cat(given))
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("kept", [0.0, 0.7, 1.0])
def test_values_and_gradients_are_those_of_a_plain_loop(kept: float) -> None:
    layer, (features, state, keep) = lstm(), inputs(kept)
    wanted = [features, *layer.parameters()]
    expected, ours = naive(layer, features, state, keep), layer(features, state, keep)
    torch.testing.assert_close(ours, expected)
    direction = torch.randn(ours.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    expected_by = torch.autograd.grad(expected, wanted, direction)
    for found, true in zip(torch.autograd.grad(ours, wanted, direction), expected_by, strict=True):
        torch.testing.assert_close(found, true)
        assert true.any()


def test_a_step_is_one_of_the_unrolled() -> None:
    layer, (features, state, keep) = lstm(), inputs(1.0)
    given = layer(features, state, keep)
    for step in range(STEPS + 1):
        state = layer.step(features[step], state)
        torch.testing.assert_close(state[:, :UNITS], given[step])


def test_at_the_start_it_remembers() -> None:
    bias = LSTM(FEATURES, UNITS, torch.Generator()).bias
    assert bias.view(4, UNITS).mean(1).tolist() == [0.0, 1.0, 0.0, 0.0]
