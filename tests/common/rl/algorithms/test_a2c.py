"""The loss of A2C against plain loops in float64."""

import numpy as np
import pytest

from common.rl.algorithms import a2c
from common.settings.sections import Algorithm
from tests.helpers.losses import naive_returns, outputs_of, probabilities
from tests.helpers.rollouts import BOX, COPIES, STEPS, make


@pytest.mark.parametrize("correction", ["vtrace", "none"])
def test_it_is_the_n_step_loss_whatever_acted(correction: str) -> None:
    model, rollout = make(BOX)
    section = Algorithm(kind="a2c", correction=correction, gamma=0.9, entropy_coef=0.03)  # type: ignore[arg-type]
    outputs = outputs_of(model, rollout)
    ours = a2c.loss(outputs, rollout, section, model.network.action).statistics
    pi, values = probabilities(outputs)
    returns = naive_returns(rollout, values, 0.9, 1.0)
    policy_loss = value_loss = entropy = 0.0
    for t in range(STEPS):
        for b in range(COPIES):
            if rollout.valid[t, b]:
                advantage = returns[t, b] - values[t, b]
                policy_loss -= np.log(pi[t, b, rollout.actions[t, b]]) * advantage
                value_loss += advantage**2
                entropy -= float(pi[t, b] @ np.log(pi[t, b]))
    expected = np.array([policy_loss, value_loss, entropy]) / rollout.steps
    np.testing.assert_allclose([ours.policy_loss, ours.value_loss, ours.entropy], expected, rtol=1e-4)
