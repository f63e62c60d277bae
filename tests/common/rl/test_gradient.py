"""What every algorithm's gradient has in common: chunks of observations, the way through time, the clipped norm."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from common.rl.gradient import gradient
from common.rl.networks.model import TorchModel
from common.rl.networks.recurrent import Recurrent
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm
from tests.helpers.rollouts import BOX, COPIES, PICTURE, STEPS, make, tensors

UNCLIPPED = Algorithm(max_grad_norm=0.0)


@pytest.mark.parametrize("chunk", [1, 2, 20, 64])
def test_chunks_add_up(chunk: int) -> None:
    model, rollout = make(PICTURE)
    whole = gradient(model, rollout, UNCLIPPED)
    expected = model.flat.gradient.clone()
    model.network.chunk = chunk
    parts = gradient(model, rollout, UNCLIPPED)
    assert parts == pytest.approx(whole, rel=1e-3)
    torch.testing.assert_close(model.flat.gradient, expected, rtol=1e-3, atol=1e-4)


def test_the_gradient_is_clipped_and_the_norm_is_the_one_before() -> None:
    model, rollout = make(BOX)
    norm = gradient(model, rollout, UNCLIPPED).gradient_norm
    direction = model.flat.gradient / norm
    clipped = gradient(model, rollout, Algorithm(max_grad_norm=norm / 2))
    assert clipped.gradient_norm == pytest.approx(norm)
    torch.testing.assert_close(model.flat.gradient, direction * norm / 2)


def recurrent(observation: ObservationSpec = BOX) -> tuple[TorchModel, Rollout]:
    """An LSTM's model and a rollout whose dummies follow ends."""
    model, rollout = make(observation, lstm=5)
    generator = torch.Generator().manual_seed(7)
    state = torch.randn(COPIES, model.network.state_size, generator=generator)
    valid = np.ones_like(rollout.valid)
    valid[1:] = ~rollout.terminated[:-1]
    return model, dataclasses.replace(rollout, valid=valid, terminated=rollout.terminated & valid, state=state.numpy())


def plain_loss(network: Recurrent, rollout: Rollout, section: Algorithm) -> Tensor:
    """In float64, copy by copy and step by step, without importance correction."""
    losses, state_size = [], network.state_size
    given = tensors(rollout)
    for copy in range(COPIES):
        h, c = given.state[copy : copy + 1].double().split(state_size // 2, dim=1)
        outputs = []
        for step in range(STEPS + 1):
            x = network.trunk(given.observations[step, copy : copy + 1].double())
            h, c = torch.lstm_cell(x, (h, c), network.lstm.weight_input, network.lstm.weight_hidden, network.lstm.bias)
            outputs.append((h @ network.head_weight.T + network.head_bias)[0])
            if step < STEPS and not rollout.valid[step, copy]:
                h, c = torch.zeros_like(h), torch.zeros_like(c)
        for step in range(STEPS):
            if not rollout.valid[step, copy]:
                continue
            target, factor, end = 0.0, 1.0, step
            while end < STEPS and rollout.valid[end, copy]:
                target += factor * float(rollout.rewards[end, copy])
                factor *= 0.0 if rollout.terminated[end, copy] else section.gamma
                end += 1
            value = outputs[step][-1]
            advantage = target + factor * outputs[end][-1].item() - value
            policy = outputs[step][:-1].log_softmax(0)
            entropy = -(policy.exp() * policy).sum()
            taken = policy[rollout.actions[step, copy]]
            losses.append(
                section.value_coef * advantage**2 - advantage.detach() * taken - section.entropy_coef * entropy
            )
    return torch.stack(losses).mean()


def test_through_time_it_is_that_of_a_plain_loop_in_float64() -> None:
    model, rollout = recurrent()
    section = Algorithm(max_grad_norm=0.0, correction="none", entropy_coef=0.3)
    statistics = gradient(model, rollout, section)
    twin, _ = recurrent()
    network = twin.network.double()
    assert isinstance(network, Recurrent)
    loss = plain_loss(network, rollout, section)
    expected = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(network.parameters()))]).float()
    torch.testing.assert_close(model.flat.gradient, expected, rtol=1e-4, atol=1e-6)
    ours = (
        statistics.policy_loss + section.value_coef * statistics.value_loss - section.entropy_coef * statistics.entropy
    )
    assert ours == pytest.approx(loss.item(), rel=1e-4)


@pytest.mark.parametrize("chunk", [1, 2, 20])
def test_through_time_chunks_add_up_too(chunk: int) -> None:
    model, rollout = recurrent(PICTURE)
    gradient(model, rollout, UNCLIPPED)
    expected = model.flat.gradient.clone()
    model.network.chunk = chunk
    gradient(model, rollout, UNCLIPPED)
    torch.testing.assert_close(model.flat.gradient, expected, rtol=1e-3, atol=1e-4)


def test_a_rollout_without_a_state_is_refused() -> None:
    model, rollout = recurrent()
    with pytest.raises(ValueError, match="needs the state"):
        gradient(model, dataclasses.replace(rollout, state=None), UNCLIPPED)
