"""What a network says of forbidden actions, and that it says all else as it would without a mask."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from common.rl.action_masks import FORBIDDEN, join, masked
from common.rl.action_spec import ActionSpec, discrete
from common.rl.networks.model import TorchModel, build
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from tests.helpers.run import settings_of

STEPS, COPIES = 4, 3
ACTIONS = {"discrete": discrete(4), "pairs": ActionSpec("multi-discrete", (2, 2), (2,))}
CASES = {
    "dense": ("network.hidden=[5]",),
    "normalised": ("network.normalize=true",),
    "lstm": ("network.lstm=4", "network.hidden=[5]"),
    "values": ("algorithm.kind=n-step-q",),
    "own": ("network.kind=tests.helpers.own_networks:Small",),
}


def models(name: str, action: ActionSpec, seen: ObservationSpec) -> tuple[TorchModel, TorchModel]:
    settings = settings_of(*CASES[name])
    one, other = build(settings, masked(seen, action), action), build(settings, seen, action)
    for model in (one, other):
        model.flat.vector.normal_(generator=torch.Generator().manual_seed(3))
        model.statistics[:] = 0.5
    return one, other


def rollout_of(observations: np.ndarray, state_size: int) -> Rollout:
    numbers, flags = np.zeros((STEPS, COPIES), np.float32), np.zeros((STEPS, COPIES), np.bool_)
    rows = observations.reshape(STEPS + 1, COPIES, *observations.shape[1:])
    state = np.ones((COPIES, state_size), np.float32)
    return Rollout(rows, np.zeros((STEPS, COPIES), np.int64), numbers, flags, ~flags, numbers, state)


@pytest.mark.parametrize("kind", ["box", "discrete"])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients(name: str, action: str, kind: str) -> None:
    if (kind == "discrete" and name in ("normalised", "own")) or (action == "pairs" and name == "values"):
        pytest.skip("there is none")
    rng = np.random.default_rng(0)
    count = (STEPS + 1) * COPIES
    seen = ObservationSpec((2, 3), "box", 6) if kind == "box" else ObservationSpec((), "discrete", 9)
    observations = rng.normal(size=(count, 2, 3)).astype(np.float32) if kind == "box" else rng.integers(9, size=count)
    one, other = models(name, ACTIONS[action], seen)
    masks = rng.random((count, 4)) < 0.5
    rollouts = rollout_of(join(observations, masks), one.state_size), rollout_of(observations, one.state_size)

    expected = np.asarray(other.forward(rollouts[1])).copy()
    expected[:, :-1][~masks] = FORBIDDEN
    for outputs in (one.outputs(rollouts[0]), one.forward(rollouts[0])):
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)
    derivative = rng.normal(size=expected.shape).astype(np.float32)
    one.backward(derivative)
    derivative[:, :-1][~masks] = 0
    other.backward(derivative)
    np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-4, atol=1e-4)

    state = rng.normal(size=(count, one.state_size)).astype(np.float32)
    (acted, after), (plain, plain_after) = one.step(join(observations, masks), state), other.step(observations, state)
    np.testing.assert_allclose(acted[:, -1], plain[:, -1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(acted[:, :-1], np.where(masks, plain[:, :-1], np.float32(FORBIDDEN)), rtol=1e-5)
    np.testing.assert_array_equal(after, plain_after)


def test_it_is_another_network_with_the_same_parameters() -> None:
    one, other = (build(settings_of(), spec, discrete(4)) for spec in (masked(BOX, discrete(4)), BOX))
    assert one.hash != other.hash
    assert torch.equal(one.flat.vector, other.flat.vector)
    assert one.normalization == other.normalization


BOX = ObservationSpec((2,), "box", 2)
