"""The gradient of a rollout against autograd on the loss written plainly, and bootstrapping by hand."""

import dataclasses
from typing import Any

import msgspec
import pytest
import torch

from common.algorithms.a3c import clip_norm, gradient
from common.algorithms.rollout import Rollout
from common.algorithms.statistics import Statistics
from common.algorithms.vtrace import vtrace
from common.networks.flat import FlatParameters, flatten
from common.networks.heads import PolicyValue
from common.networks.observation import ObservationSpec
from common.networks.registry import build
from common.settings.sections import Algorithm, Network

STEPS, COPIES, ACTIONS = 6, 7, 3
BOX = ObservationSpec((4,), "box", 4)
PICTURE = ObservationSpec((2, 36, 36), "pixels", 2 * 36 * 36)
UNCLIPPED = Algorithm(gradient_clip=0.0)


OWN = "tests.helpers.own_networks:Small"


def make(
    observation: ObservationSpec, seed: int = 0, kind: str = "auto"
) -> tuple[PolicyValue, FlatParameters, Rollout]:
    generator = torch.Generator().manual_seed(seed)
    network = build(Network(kind=kind), observation, ACTIONS, seed)
    flat = flatten(network)
    if observation is BOX:
        flat.vector.add_(torch.randn(flat.size, generator=generator), alpha=0.1)
    shape = (STEPS, COPIES)
    x = torch.randint(0, 256, (STEPS + 1, COPIES, *observation.shape), generator=generator)
    rollout = Rollout(
        observations=x.to(observation.dtype) if observation is PICTURE else x / 128 - 1,
        actions=torch.randint(0, ACTIONS, shape, generator=generator),
        rewards=torch.randn(shape, generator=generator),
        terminated=torch.rand(shape, generator=generator) < 0.2,
        valid=torch.rand(shape, generator=generator) < 0.8,
        # Spans ratios well below and above 1.
        behaviour_log_probs=-3 * torch.rand(shape, generator=generator),
    )
    return network, flat, rollout


def plain(network: PolicyValue, rollout: Rollout, section: Algorithm) -> tuple[torch.Tensor, Statistics]:
    """The gradient by autograd through torch's own functions; only the targets come from `vtrace`."""
    logits, values = network(rollout.observations.flatten(0, 1))
    values = values.reshape(STEPS + 1, COPIES)
    policy = torch.distributions.Categorical(logits=logits[: STEPS * COPIES].reshape(STEPS, COPIES, ACTIONS))
    log_probs = policy.log_prob(rollout.actions)
    ratio = (log_probs - rollout.behaviour_log_probs).exp().detach()
    v = values.detach().numpy()
    targets, advantages = vtrace(
        rollout.rewards.numpy(),
        (section.discount * ~rollout.terminated).numpy(),
        v,
        torch.ones_like(ratio).numpy() if section.correction == "none" else ratio.numpy(),
        rollout.valid.numpy(),
        section.gae_lambda,
        section.rho_clip,
        section.c_clip,
    )
    valid = rollout.valid
    weight = torch.from_numpy(advantages)[valid]
    if section.normalize_advantages:
        weight = (weight - weight.mean()) / weight.std(correction=0)
    policy_loss = -(weight * log_probs[valid]).mean()
    value_loss = (torch.from_numpy(targets) - values[:-1])[valid].square().mean()
    entropy = policy.entropy()[valid].mean()
    loss = policy_loss + section.value * value_loss - section.entropy * entropy
    parts = torch.autograd.grad(loss, list(network.parameters()))
    vector = torch.cat([part.flatten() for part in parts])
    numbers = [x.item() for x in (policy_loss, value_loss, entropy, vector.norm(), ratio[valid].mean())]
    return vector, Statistics(*numbers)


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
        {"normalize_advantages": True, "entropy": 0.3, "value": 0.9, "discount": 0.7},
    ],
)
def test_gradient_equals_autograd(changes: dict[str, Any]) -> None:
    network, flat, rollout = make(BOX)
    section = msgspec.structs.replace(UNCLIPPED, **changes)
    expected, statistics = plain(network, rollout, section)
    flat.gradient.fill_(123.0)
    assert_same(gradient(network, flat, rollout, section), statistics)
    torch.testing.assert_close(flat.gradient, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "observation"), [("conv-nature", PICTURE), ("conv-impala", PICTURE), (OWN, PICTURE), (OWN, BOX)]
)
def test_of_every_network_and_alike_on_both_ends(kind: str, observation: ObservationSpec) -> None:
    network, flat, rollout = make(observation, kind=kind)
    expected, statistics = plain(network, rollout, UNCLIPPED)
    assert_same(gradient(network, flat, rollout, UNCLIPPED), statistics)
    torch.testing.assert_close(flat.gradient, expected, rtol=1e-3, atol=1e-4)
    assert flat.gradient.any()

    there, others, _ = make(observation, seed=1, kind=kind)
    assert others.hash == flat.hash
    others.vector.copy_(flat.vector)
    gradient(there, others, rollout, UNCLIPPED)
    assert torch.equal(others.gradient, flat.gradient)

    masked = dataclasses.replace(rollout, rewards=torch.where(rollout.valid, rollout.rewards, 100.0))
    gradient(there, others, masked, UNCLIPPED)
    assert torch.equal(others.gradient, flat.gradient), "what a masked step was given counts for nothing"


@pytest.mark.parametrize("chunk", [1, 2, 20, 64])
def test_chunks_add_up(chunk: int) -> None:
    network, flat, rollout = make(PICTURE)
    expected, statistics = plain(network, rollout, UNCLIPPED)
    network.chunk = chunk
    assert_same(gradient(network, flat, rollout, UNCLIPPED), statistics)
    torch.testing.assert_close(flat.gradient, expected, rtol=1e-3, atol=1e-4)


def test_on_policy_ratio_is_one() -> None:
    network, flat, rollout = make(BOX)
    logits, _ = network.act(rollout.observations[:-1].flatten(0, 1))
    taken = logits.log_softmax(1).gather(1, rollout.actions.reshape(-1, 1)).reshape(STEPS, COPIES)
    rollout = dataclasses.replace(rollout, behaviour_log_probs=taken.clone())
    assert gradient(network, flat, rollout, Algorithm()).ratio == pytest.approx(1.0, abs=1e-5)


def one_column(network: PolicyValue, *, terminated: bool) -> tuple[Rollout, float, float]:
    """Step 0 ends an episode, step 1 is the dummy, step 2 plays on; and the squared errors of steps 0 and 2."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 1, 4, generator=generator)
    rollout = Rollout(
        observations=x,
        actions=torch.zeros(3, 1, dtype=torch.int64),
        rewards=torch.tensor([[1.0], [0.0], [5.0]]),
        terminated=torch.tensor([[terminated], [False], [False]]),
        valid=torch.tensor([[True], [False], [True]]),
        behaviour_log_probs=torch.full((3, 1), -1.0),
    )
    values = network.act(x[:, 0])[1].tolist()
    first = 1.0 + (0.0 if terminated else 0.9 * values[1]) - values[0]
    return rollout, first**2, (5.0 + 0.9 * values[3] - values[2]) ** 2


@pytest.mark.parametrize("terminated", [True, False])
def test_a_time_limit_bootstraps_and_a_termination_does_not(terminated: bool) -> None:
    network, flat, _ = make(BOX)
    rollout, first, second = one_column(network, terminated=terminated)
    section = Algorithm(discount=0.9, correction="none")
    statistics = gradient(network, flat, rollout, section)
    assert statistics.value_loss == pytest.approx((first + second) / 2, rel=1e-4)


def test_the_gradient_is_clipped_and_the_norm_is_the_one_before() -> None:
    network, flat, rollout = make(BOX)
    norm = gradient(network, flat, rollout, UNCLIPPED).gradient_norm
    direction = flat.gradient / norm
    clipped = gradient(network, flat, rollout, Algorithm(gradient_clip=norm / 2))
    assert clipped.gradient_norm == pytest.approx(norm)
    torch.testing.assert_close(flat.gradient, direction * norm / 2)


def test_without_a_valid_step_the_gradient_is_zero() -> None:
    network, flat, rollout = make(BOX)
    rollout = dataclasses.replace(rollout, valid=torch.zeros(STEPS, COPIES, dtype=torch.bool))
    for normalize in (False, True):
        gradient(network, flat, rollout, Algorithm(normalize_advantages=normalize))
        assert not flat.gradient.any()


def test_an_enormous_ratio_stays_finite() -> None:
    network, flat, rollout = make(BOX)
    rollout = dataclasses.replace(rollout, behaviour_log_probs=torch.full((STEPS, COPIES), -1e4))
    assert gradient(network, flat, rollout, Algorithm()).ratio > 1e6
    assert flat.gradient.isfinite().all()


def test_clip_norm_leaves_what_is_small_enough() -> None:
    for largest in (0.0, 5.0, 9.0):
        vector = torch.tensor([3.0, 4.0])
        assert clip_norm(vector, largest) == pytest.approx(5.0)
        assert vector.tolist() == [3.0, 4.0]
