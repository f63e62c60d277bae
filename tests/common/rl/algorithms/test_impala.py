"""The loss of IMPALA against V-trace's definition, written as sums of products in float64."""

import numpy as np
import pytest

from common.rl.algorithms import impala
from common.settings.sections import Algorithm
from tests.helpers.losses import outputs_of, probabilities
from tests.helpers.rollouts import BOX, COPIES, STEPS, make


@pytest.mark.parametrize(("rho_clip", "c_clip"), [(1.0, 1.0), (1.7, 0.6)])
def test_it_is_the_actor_critic_loss_on_v_trace_s_targets(rho_clip: float, c_clip: float) -> None:
    model, rollout = make(BOX)
    section = Algorithm(kind="vtrace", rho_clip=rho_clip, c_clip=c_clip, gamma=0.9)
    outputs = outputs_of(model, rollout)
    ours = impala.loss(outputs, rollout, section, model.network.action).statistics
    pi, values = probabilities(outputs)
    policy_loss = value_loss = 0.0
    for b in range(COPIES):
        targets = np.append(values[:STEPS, b], values[STEPS, b])
        valid = rollout.valid[:, b].numpy()
        discounts = np.where(rollout.terminated[:, b], 0.0, 0.9)
        taken = pi[np.arange(STEPS), b, rollout.actions[:, b]]
        ratios = taken / np.exp(rollout.behaviour_log_probs[:, b].double().numpy())
        rho, c = np.minimum(ratios, rho_clip) * valid, np.minimum(ratios, c_clip) * valid
        rewards = rollout.rewards[:, b].double().numpy()
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
