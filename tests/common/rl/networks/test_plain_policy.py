"""Actions out of a network's numbers are those that a3cd takes for the best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from common.rl.distributions.registry import distribution
from common.rl.environments.actions import ActionMap
from common.rl.networks.model import build
from common.rl.networks.plain import PlainNetwork
from common.rl.networks.plain_policy import PlainPolicy
from common.rl.observation_spec import ObservationSpec
from tests.helpers.run import settings_of

OBSERVATION = ObservationSpec((6,), "box", 6)
INF = np.inf
SPACES = {
    "discrete": (Discrete(4, start=3), "clip"),
    "several": (MultiDiscrete([2, 3], start=[1, 0]), "clip"),
    "a table of choices": (MultiDiscrete(np.array([[2], [4]])), "clip"),
    "numbers": (Box(np.array([-2, 0, -INF], np.float32), np.array([2, INF, INF], np.float32)), "clip"),
    "squashed": (Box(np.array([-2, 0, -INF], np.float32), np.array([2, 5, INF], np.float32)), "tanh"),
    "whole numbers": (Box(0, 9, (2, 2), np.int32), "clip"),
    "bytes": (Box(0, 255, (3,), np.uint8), "clip"),
}


@pytest.mark.parametrize("name", SPACES)
def test_the_best_actions(name: str) -> None:
    space, bounds = SPACES[name]
    actions = ActionMap(space, bounds)  # type: ignore[arg-type]
    model = build(settings_of("network.hidden=[8]"), OBSERVATION, actions.spec)
    model.flat.vector.normal_(generator=torch.Generator().manual_seed(0))
    policy = PlainPolicy(PlainNetwork(model, OBSERVATION), actions)
    x = torch.randn(50, 6, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        best, numbers, values = policy(x)
    outputs, _ = model.step(x.numpy(), np.zeros((50, 0), np.float32))
    expected: Any = actions.own(distribution(model.action, outputs[:, :-1]).mode())
    np.testing.assert_allclose(best.numpy(), expected, rtol=1e-5, atol=1e-5)
    assert best.numpy().dtype == expected.dtype
    assert all(space.contains(one) for one in best.numpy())
    np.testing.assert_allclose(numbers.numpy(), outputs[:, :-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(values.numpy(), outputs[:, -1], rtol=1e-4, atol=1e-5)


def test_of_a_recurrent_network_there_is_a_next_state() -> None:
    actions = ActionMap(Discrete(2))
    model = build(settings_of("network.lstm=4"), OBSERVATION, actions.spec)
    policy = PlainPolicy(PlainNetwork(model, OBSERVATION), actions)
    assert [tuple(one.shape) for one in policy(torch.zeros(3, 6), torch.zeros(3, 8))] == [(3,), (3, 2), (3,), (3, 8)]
