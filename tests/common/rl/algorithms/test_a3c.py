"""The gradient of a rollout against autograd on the loss written plainly, and bootstrapping by hand."""

import dataclasses
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from common.rl.action_spec import ActionSpec
from common.rl.algorithms.a3c import loss
from common.rl.algorithms.statistics import Statistics
from common.rl.algorithms.vtrace import vtrace
from common.rl.distributions.gaussian import STD_FLOOR
from common.rl.gradient import gradient
from common.rl.networks.heads import PolicyValue
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm
from tests.helpers.losses import naive_returns, outputs_of, probabilities
from tests.helpers.rollouts import BOX, COPIES, PICTURE, STEPS, make, tensors

OWN = "tests.helpers.own_networks:Small"
UNCLIPPED = Algorithm(max_grad_norm=0.0)


def plain(network: PolicyValue, rollout: Rollout, section: Algorithm) -> tuple[torch.Tensor, Statistics]:
    """The gradient by autograd through torch's own functions; only the targets come from `vtrace`."""
    given = tensors(rollout)
    numbers, values = network(given.observations.flatten(0, 1))
    values = values.reshape(STEPS + 1, COPIES)
    log_probs, entropies = described(network.action, numbers[: STEPS * COPIES].reshape(STEPS, COPIES, -1), rollout)
    ratio = (log_probs - given.behaviour_log_probs).exp().detach()
    v = values.detach().numpy()
    targets, advantages = vtrace(
        rollout.rewards,
        np.float32(section.gamma) * ~rollout.terminated,
        v,
        torch.ones_like(ratio).numpy() if section.correction == "none" else ratio.numpy(),
        rollout.valid,
        section.gae_lambda,
        section.rho_clip,
        section.c_clip,
    )
    valid = given.valid
    weight = torch.from_numpy(advantages)[valid]
    if section.normalize_advantages:
        weight = (weight - weight.mean()) / weight.std(correction=0)
    policy_loss = -(weight * log_probs[valid]).mean()
    value_loss = (torch.from_numpy(targets) - values[:-1])[valid].square().mean()
    entropy = entropies[valid].mean()
    loss = policy_loss + section.value_coef * value_loss - section.entropy_coef * entropy
    parts = torch.autograd.grad(loss, list(network.parameters()))
    vector = torch.cat([part.flatten() for part in parts])
    kl = (ratio - 1 - (log_probs - given.behaviour_log_probs))[valid].mean()
    returns = torch.from_numpy(targets)[valid]
    explained = 1 - (returns - values[:-1][valid]).var(correction=0) / returns.var(correction=0)
    known = (policy_loss, value_loss, entropy, vector.norm(), ratio[valid].mean(), kl, explained.clamp(min=-1))
    figures = [x.item() for x in known]
    return vector, Statistics(*figures)


def described(action: ActionSpec, numbers: torch.Tensor, rollout: Rollout) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of the rollout's actions and entropies by torch's distributions, (T, B) each."""
    taken = tensors(rollout).actions.reshape(STEPS, COPIES, -1)
    if action.kind != "box":
        parts = [torch.distributions.Categorical(logits=part) for part in numbers.split(action.sizes, dim=-1)]
        log_probs = [part.log_prob(taken[..., column]) for column, part in enumerate(parts)]
        return torch.stack(log_probs).sum(0), torch.stack([part.entropy() for part in parts]).sum(0)
    mean, raw = numbers.split(action.count, dim=-1)
    std = torch.nn.functional.softplus(raw) if action.log_std == "state" else raw.exp()
    policy = torch.distributions.Normal(mean, std + STD_FLOOR)
    tanh = (1 - taken.tanh().square()).log() * torch.tensor(action.squashed)
    return (policy.log_prob(taken) - tanh).sum(-1), policy.entropy().sum(-1)


def assert_same(ours: Statistics, expected: Statistics) -> None:
    for field in Statistics._fields:
        assert getattr(ours, field) == pytest.approx(getattr(expected, field), rel=1e-3, abs=1e-5), field


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"correction": "none"},
        {"gae_lambda": 0.8, "rho_clip": 1.7, "c_clip": 0.6},
        {"correction": "none", "gae_lambda": 0.8},
        {"normalize_advantages": True, "entropy_coef": 0.3, "value_coef": 0.9, "gamma": 0.7},
    ],
)
def test_gradient_equals_autograd(changes: dict[str, Any]) -> None:
    model, rollout = make(BOX)
    section = msgspec.structs.replace(UNCLIPPED, **changes)
    expected, statistics = plain(model.network, rollout, section)
    model.flat.gradient.fill_(123.0)
    assert_same(gradient(model, rollout, section), statistics)
    torch.testing.assert_close(model.flat.gradient, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["auto", OWN])
@pytest.mark.parametrize(
    "action",
    [
        ActionSpec("multi-discrete", (3, 2), (2,)),
        ActionSpec("box", shape=(2, 1), squashed=(False, False)),
        ActionSpec("box", shape=(2,), squashed=(True, False), log_std="state"),
    ],
    ids=str,
)
def test_of_every_kind_of_action(action: ActionSpec, kind: str) -> None:
    model, rollout = make(BOX, kind=kind, action=action)
    expected, statistics = plain(model.network, rollout, UNCLIPPED)
    assert_same(gradient(model, rollout, UNCLIPPED), statistics)
    torch.testing.assert_close(model.flat.gradient, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "observation"), [("conv-nature", PICTURE), ("conv-impala", PICTURE), (OWN, PICTURE), (OWN, BOX)]
)
def test_of_every_network_and_alike_on_both_ends(kind: str, observation: ObservationSpec) -> None:
    model, rollout = make(observation, kind=kind)
    expected, statistics = plain(model.network, rollout, UNCLIPPED)
    assert_same(gradient(model, rollout, UNCLIPPED), statistics)
    torch.testing.assert_close(model.flat.gradient, expected, rtol=1e-3, atol=1e-4)
    assert model.flat.gradient.any()

    there, _ = make(observation, seed=1, kind=kind)
    assert there.flat.hash == model.flat.hash
    there.flat.vector.copy_(model.flat.vector)
    gradient(there, rollout, UNCLIPPED)
    assert torch.equal(there.flat.gradient, model.flat.gradient)

    masked = dataclasses.replace(rollout, rewards=np.where(rollout.valid, rollout.rewards, np.float32(100)))
    gradient(there, masked, UNCLIPPED)
    assert torch.equal(there.flat.gradient, model.flat.gradient), "what a masked step was given counts for nothing"


NUMBERS: dict[str, Any] = {
    "gamma": 0.9,
    "gae_lambda": 1.0,
    "entropy_coef": 0.03,
    "value_coef": 0.5,
    "normalize_advantages": False,
}


@pytest.mark.parametrize(("rho_clip", "c_clip"), [(1.0, 1.0), (1.7, 0.6)])
def test_with_the_correction_the_targets_are_v_trace_s_sums_of_products(rho_clip: float, c_clip: float) -> None:
    """In float64, by the definition of Espeholt et al. 2018, section 4.1."""
    model, rollout = make(BOX)
    outputs = outputs_of(model, rollout)
    action = model.network.action
    ours = loss(outputs, rollout, action, **NUMBERS, correction="vtrace", rho_clip=rho_clip, c_clip=c_clip).statistics
    pi, values = probabilities(outputs)
    policy_loss = value_loss = 0.0
    for b in range(COPIES):
        targets = np.append(values[:STEPS, b], values[STEPS, b])
        valid = rollout.valid[:, b]
        discounts = np.where(rollout.terminated[:, b], 0.0, 0.9)
        taken = pi[np.arange(STEPS), b, rollout.actions[:, b]]
        ratios = taken / np.exp(rollout.behaviour_log_probs[:, b].astype(np.float64))
        rho, c = np.minimum(ratios, rho_clip) * valid, np.minimum(ratios, c_clip) * valid
        rewards = rollout.rewards[:, b].astype(np.float64)
        deltas = rho * (rewards + discounts * values[1:, b] - values[:-1, b])
        for s in range(STEPS):
            for t in range(s, STEPS):
                targets[s] += np.prod(discounts[s:t]) * np.prod(c[s:t]) * deltas[t]
        for t in np.flatnonzero(valid):
            advantage = rho[t] * (rewards[t] + discounts[t] * targets[t + 1] - values[t, b])
            policy_loss -= np.log(taken[t]) * advantage
            value_loss += (targets[t] - values[t, b]) ** 2
    expected = np.array([policy_loss, value_loss]) / rollout.steps
    np.testing.assert_allclose([ours.policy_loss, ours.value_loss], expected, rtol=1e-4)


def test_without_it_the_policy_that_acted_does_not_matter() -> None:
    model, rollout = make(BOX)
    outputs = outputs_of(model, rollout)
    given: dict[str, Any] = {**NUMBERS, "correction": "none", "rho_clip": 1.0, "c_clip": 1.0}
    ours = loss(outputs, rollout, model.network.action, **given).statistics
    pi, values = probabilities(outputs)
    returns = naive_returns(rollout, values, 0.9, 1.0)
    policy_loss = value_loss = entropy = 0.0
    for t, b in np.argwhere(rollout.valid):
        advantage = returns[t, b] - values[t, b]
        policy_loss -= np.log(pi[t, b, rollout.actions[t, b]]) * advantage
        value_loss += advantage**2
        entropy -= float(pi[t, b] @ np.log(pi[t, b]))
    expected = np.array([policy_loss, value_loss, entropy]) / rollout.steps
    np.testing.assert_allclose([ours.policy_loss, ours.value_loss, ours.entropy], expected, rtol=1e-4)


def test_on_policy_ratio_is_one() -> None:
    model, rollout = make(BOX)
    logits = model.network(tensors(rollout).observations[:-1].flatten(0, 1))[0].detach()
    taken = logits.log_softmax(1).gather(1, tensors(rollout).actions.reshape(-1, 1)).reshape(STEPS, COPIES)
    rollout = dataclasses.replace(rollout, behaviour_log_probs=taken.numpy())
    assert gradient(model, rollout, Algorithm()).ratio == pytest.approx(1.0, abs=1e-5)


def one_column(network: PolicyValue, *, terminated: bool) -> tuple[Rollout, float, float]:
    """Step 0 ends an episode, step 1 is the dummy, step 2 plays on; and the squared errors of steps 0 and 2."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 1, 4, generator=generator)
    rollout = Rollout(
        observations=x.numpy(),
        actions=np.zeros((3, 1), np.int64),
        rewards=np.array([[1.0], [0.0], [5.0]], np.float32),
        terminated=np.array([[terminated], [False], [False]]),
        valid=np.array([[True], [False], [True]]),
        behaviour_log_probs=np.full((3, 1), -1.0, np.float32),
    )
    values = network(x[:, 0])[1].tolist()
    first = 1.0 + (0.0 if terminated else 0.9 * values[1]) - values[0]
    return rollout, first**2, (5.0 + 0.9 * values[3] - values[2]) ** 2


@pytest.mark.parametrize("terminated", [True, False])
def test_a_time_limit_bootstraps_and_a_termination_does_not(terminated: bool) -> None:
    model, _ = make(BOX)
    rollout, first, second = one_column(model.network, terminated=terminated)
    section = Algorithm(gamma=0.9, correction="none")
    statistics = gradient(model, rollout, section)
    assert statistics.value_loss == pytest.approx((first + second) / 2, rel=1e-4)


def test_without_a_valid_step_the_gradient_is_zero() -> None:
    model, rollout = make(BOX)
    rollout = dataclasses.replace(rollout, valid=np.zeros((STEPS, COPIES), np.bool_))
    for normalize in (False, True):
        gradient(model, rollout, Algorithm(normalize_advantages=normalize))
        assert not model.flat.gradient.any()


def test_an_enormous_ratio_stays_finite() -> None:
    model, rollout = make(BOX)
    rollout = dataclasses.replace(rollout, behaviour_log_probs=np.full((STEPS, COPIES), -1e4, np.float32))
    assert gradient(model, rollout, Algorithm()).ratio > 1e6
    assert model.flat.gradient.isfinite().all()
