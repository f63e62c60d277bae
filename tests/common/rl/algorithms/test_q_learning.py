"""The losses against plain loops and autograd, both in float64; and what the ends of episodes and rollouts mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch

from common.rl.action_masks import FORBIDDEN
from common.rl.algorithms import q_learning
from common.rl.algorithms.registry import METHODS
from common.rl.gradient import gradient
from common.rl.networks.model import TorchModel
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm
from tests.helpers.rollouts import ACTIONS, BOX, COPIES, PICTURE, STEPS, make

LOSSES = {
    "one-step-q": q_learning.one_step_q,
    "n-step-q": q_learning.n_step_q,
    "one-step-sarsa": q_learning.one_step_sarsa,
}
Q = list[list[list[float]]]
Naive = Callable[[Rollout, Q, int, int], float | None]


def section_of(kind: str) -> Algorithm:
    return Algorithm(kind=kind, gamma=0.9, max_grad_norm=0.0)  # type: ignore[arg-type]


def whole(seed: int = 0, kind: str = "one-step-q", observation: ObservationSpec = BOX) -> tuple[TorchModel, Rollout]:
    """A model with another target network, and a rollout as environments give it: a dummy follows each end."""
    model, rollout = make(observation, seed, algorithm=kind)
    assert model.target is not None
    generator = torch.Generator().manual_seed(100 + seed)
    model.target.flat.vector.add_(torch.randn(model.flat.size, generator=generator), alpha=0.1)
    ended = torch.rand((STEPS, COPIES), generator=generator) < 0.4
    valid = torch.ones((STEPS, COPIES), dtype=torch.bool)
    for t in range(1, STEPS):
        ended[t] &= ~ended[t - 1]
        valid[t] = ~ended[t - 1]
    terminated = ended & valid & (torch.rand((STEPS, COPIES), generator=generator) < 0.5)
    rewards = np.where(valid, rollout.rewards, np.float32(0))
    return model, dataclasses.replace(rollout, valid=valid.numpy(), terminated=terminated.numpy(), rewards=rewards)


def one_step(rollout: Rollout, q: Q, t: int, b: int) -> float | None:
    rest = 0.0 if rollout.terminated[t, b] else 0.9 * max(q[t + 1][b])
    return float(rollout.rewards[t, b]) + rest


def n_step(rollout: Rollout, q: Q, t: int, b: int) -> float | None:
    """Forward in time from each step, until the episode or the rollout is over."""
    total, factor = 0.0, 1.0
    while True:
        total += factor * float(rollout.rewards[t, b])
        if rollout.terminated[t, b]:
            return total
        factor *= 0.9
        t += 1
        if t == STEPS or not rollout.valid[t, b]:
            return total + factor * max(q[t][b])


def sarsa(rollout: Rollout, q: Q, t: int, b: int) -> float | None:
    reward = float(rollout.rewards[t, b])
    if rollout.terminated[t, b]:
        return reward
    if t + 1 == STEPS or not rollout.valid[t + 1, b]:
        return None  # no action was taken there
    return reward + 0.9 * q[t + 1][b][int(rollout.actions[t + 1, b])]


NAIVE: dict[str, Naive] = {"one-step-q": one_step, "n-step-q": n_step, "one-step-sarsa": sarsa}


def by_autograd(kind: str, model: TorchModel, rollout: Rollout) -> tuple[torch.Tensor, float, float]:
    """Gradient, loss and mean value, in float64."""
    assert model.target is not None
    network, target = model.network.double(), model.target.network.double()
    x = torch.from_numpy(rollout.observations).flatten(0, 1)
    x = x.double() if x.is_floating_point() else x
    values = network(x)[0].reshape(STEPS + 1, COPIES, ACTIONS)
    with torch.no_grad():
        q: Q = target(x)[0].reshape(STEPS + 1, COPIES, ACTIONS).tolist()
    errors, taken = [], []
    for t in range(STEPS):
        for b in range(COPIES):
            goal = NAIVE[kind](rollout, q, t, b) if rollout.valid[t, b] else None
            if goal is not None:
                taken.append(values[t, b, int(rollout.actions[t, b])])
                errors.append((goal - taken[-1]) ** 2)
    loss = torch.stack(errors).mean()
    parts = torch.autograd.grad(loss, list(network.parameters()))
    return torch.cat([part.flatten() for part in parts]), loss.item(), torch.stack(taken).mean().item()


def test_every_algorithm_that_learns_values_is_here() -> None:
    assert set(NAIVE) == set(LOSSES) == {name for name, method in METHODS.items() if method.has_target}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("seed", [0, 1])
def test_gradient_equals_autograd_and_loops(kind: str, seed: int) -> None:
    model, rollout = whole(seed, kind)
    statistics = gradient(model, rollout, section_of(kind))
    expected, loss, mean = by_autograd(kind, whole(seed, kind)[0], rollout)
    assert statistics.value_loss == pytest.approx(loss, rel=1e-4)
    assert statistics.policy_loss == pytest.approx(-mean, rel=1e-4)
    assert (statistics.entropy, statistics.ratio) == (0.0, 1.0)
    assert statistics.gradient_norm == pytest.approx(expected.norm().item(), rel=1e-4)
    torch.testing.assert_close(model.flat.gradient.double(), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("observation", [BOX, PICTURE])
def test_both_ends_compute_alike_and_dummies_count_for_nothing(kind: str, observation: ObservationSpec) -> None:
    here, rollout = whole(0, kind, observation)
    there, _ = whole(1, kind, observation)
    for vector, given in zip(there.vectors, here.vectors, strict=True):
        vector[:] = given
    gradient(here, rollout, section_of(kind))
    other = dataclasses.replace(
        rollout,
        rewards=np.where(rollout.valid, rollout.rewards, np.float32(100)),
        actions=np.where(rollout.valid, rollout.actions, ACTIONS - 1),
    )
    gradient(there, other, section_of(kind))
    assert here.flat.gradient.any()
    assert torch.equal(here.flat.gradient, there.flat.gradient)


@pytest.mark.parametrize("kind", LOSSES)
def test_the_state_value_is_unused(kind: str) -> None:
    model, rollout = whole(0, kind)
    assert model.target is not None
    outputs = np.random.default_rng(0).normal(size=((STEPS + 1) * COPIES, ACTIONS + 1)).astype(np.float32)
    target = outputs[::-1].copy()
    derivative = LOSSES[kind](outputs, rollout, target, gamma=0.9).derivative
    assert not derivative[:, -1].any()
    assert not derivative[STEPS * COPIES :].any()
    outputs[:, -1] = target[:, -1] = 1e6
    assert np.array_equal(LOSSES[kind](outputs, rollout, target, gamma=0.9).derivative, derivative)


@pytest.mark.parametrize("kind", LOSSES)
def test_without_a_valid_step_the_gradient_is_zero(kind: str) -> None:
    model, rollout = whole(0, kind)
    nothing = np.zeros_like(rollout.valid)
    statistics = gradient(model, dataclasses.replace(rollout, valid=nothing, terminated=nothing), section_of(kind))
    assert not model.flat.gradient.any()
    assert statistics.value_loss == 0.0


@pytest.mark.parametrize(
    ("loss", "terminated", "squares"),
    [
        # Values of the state after: 2 and 3 for the two actions. Discount 0.9.
        (q_learning.one_step_q, True, [1.0, (5 + 0.9 * 3) ** 2]),
        (q_learning.one_step_q, False, [(1 + 0.9 * 3) ** 2, (5 + 0.9 * 3) ** 2]),
        (q_learning.n_step_q, True, [1.0, (5 + 0.9 * 3) ** 2]),
        (q_learning.n_step_q, False, [(1 + 0.9 * 3) ** 2, (5 + 0.9 * 3) ** 2]),
        (q_learning.one_step_sarsa, True, [1.0]),
        (q_learning.one_step_sarsa, False, []),
    ],
)
def test_a_time_limit_bootstraps_and_a_termination_does_not(
    loss: Callable[..., q_learning.Loss], terminated: bool, squares: list[float]
) -> None:
    """Step 0 ends an episode, step 1 is the dummy, step 2 is the rollout's last."""
    rollout = Rollout(
        observations=np.zeros((4, 1, 1), np.float32),
        actions=np.zeros((3, 1), np.int64),
        rewards=np.array([[1.0], [0.0], [5.0]], np.float32),
        terminated=np.array([[terminated], [False], [False]]),
        valid=np.array([[True], [False], [True]]),
        behaviour_log_probs=np.zeros((3, 1), np.float32),
    )
    target = np.tile(np.array([2.0, 3.0, 7.0], np.float32), (4, 1))
    found = loss(np.zeros((4, 3), np.float32), rollout, target, gamma=0.9).statistics.value_loss
    assert found == pytest.approx(sum(squares) / max(1, len(squares)))


@pytest.mark.parametrize("loss", [q_learning.one_step_q, q_learning.n_step_q])
def test_the_best_next_action_is_one_that_is_allowed(loss: Callable[..., q_learning.Loss]) -> None:
    rollout = Rollout(
        observations=np.zeros((2, 1, 1), np.float32),
        actions=np.array([[1]]),
        rewards=np.ones((1, 1), np.float32),
        terminated=np.array([[False]]),
        valid=np.array([[True]]),
        behaviour_log_probs=np.zeros((1, 1), np.float32),
    )
    outputs = np.array([[FORBIDDEN, -5, FORBIDDEN, 0], [0, 0, 0, 0]], np.float32)
    target = np.array([[0, 0, 0, 0], [FORBIDDEN, -4, -2, 9]], np.float32)
    found = loss(outputs, rollout, target, gamma=0.5)
    assert found.statistics.value_loss == pytest.approx((1 + 0.5 * -2 + 5) ** 2)
    assert np.flatnonzero(found.derivative).tolist() == [1]
