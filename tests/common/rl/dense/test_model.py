"""An actor's model gives what the learner's gives: hash, outputs, and the gradient of every algorithm's loss."""

from __future__ import annotations

from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.rl.action_spec import ActionSpec
from common.rl.algorithms.registry import METHODS
from common.rl.dense import model as dense
from common.rl.dense.model import clip_norm
from common.rl.gradient import gradient
from common.rl.networks import model as torch_model
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm, Network, Settings
from tests.common.rl.dense.test_network import ACTIONS, BOX, OBSERVATIONS

STEPS, COPIES = 6, 5
NO_STATE = np.zeros((COPIES, 0), np.float32)


def rollout_of(observation: ObservationSpec, action: ActionSpec, rng: np.random.Generator) -> Rollout:
    """Random, with dummies after some ends, and ratios well below and above 1."""
    shape = (STEPS, COPIES)
    seen: dict[str, Any] = {
        "box": rng.normal(size=(STEPS + 1, COPIES, *observation.shape)).astype(np.float32),
        "pixels": rng.integers(0, 256, (STEPS + 1, COPIES, *observation.shape), np.uint8),
        "discrete": rng.integers(observation.size, size=(STEPS + 1, COPIES)),
    }
    actions: Any = rng.normal(size=(*shape, *action.shape)).astype(np.float32)
    if action.kind != "box":
        columns = [rng.integers(size, size=shape) for size in action.sizes]
        actions = np.stack(columns, axis=-1).reshape(*shape, *action.shape)
    return Rollout(
        observations=seen[observation.kind],
        actions=actions,
        rewards=rng.normal(size=shape).astype(np.float32),
        terminated=rng.random(shape) < 0.2,
        valid=rng.random(shape) < 0.8,
        behaviour_log_probs=(-3 * rng.random(shape)).astype(np.float32),
    )


def check(settings: Settings, observation: ObservationSpec, action: ActionSpec, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    theirs, ours = (module.build(settings, observation, action) for module in (torch_model, dense))
    assert (ours.hash, ours.size, ours.action) == (theirs.hash, theirs.size, theirs.action)
    assert (ours.state_size, ours.normalization) == (0, theirs.normalization)
    theirs.extras[: observation.size * 2] = rng.uniform(0.2, 2, min(len(theirs.extras), observation.size * 2))
    ours.extras[:] = theirs.extras
    for mine, other in zip(ours.vectors, theirs.vectors, strict=True):
        other += rng.normal(0, 0.1, other.size).astype(np.float32)
        mine[:] = other
    rollout = rollout_of(observation, action, rng)
    acted, expected = (model.step(rollout.observations[0], NO_STATE)[0] for model in (ours, theirs))
    np.testing.assert_allclose(acted, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.outputs(rollout), theirs.outputs(rollout), rtol=1e-5, atol=1e-5)
    weights = rng.uniform(0.5, 1.5, COPIES).astype(np.float32)
    mine, other = (gradient(model, rollout, settings.algorithm, weights) for model in (ours, theirs))
    assert mine == pytest.approx(other, rel=1e-4, abs=1e-5)
    np.testing.assert_allclose(ours.gradient, theirs.gradient, rtol=1e-4, atol=2e-5 * np.abs(theirs.gradient).max())


# Values are of discrete actions only.
LEARNT = [
    (kind, action) for kind, method in METHODS.items() for action in (["discrete"] if method.has_target else ACTIONS)
]


@pytest.mark.parametrize("clip", [0.0, 0.05])
@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize(("kind", "action"), LEARNT)
def test_every_algorithm_has_the_gradient_that_torch_gives(
    kind: Any, observation: str, action: str, clip: float
) -> None:
    network = Network(kind="dense", hidden=[8, 6], log_std=ACTIONS[action].log_std)
    settings = Settings(network=network, algorithm=Algorithm(kind=kind, max_grad_norm=clip))
    check(settings, OBSERVATIONS[observation], ACTIONS[action])


@given(
    hidden=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    shared=st.booleans(),
    normalize=st.booleans(),
    activation=st.sampled_from(get_type_hints(Network, include_extras=False)["activation"].__args__),
    scale=st.sampled_from([1.0, 0.1]),
    kind=st.sampled_from(sorted(METHODS)),
    seed=st.integers(0, 2**16),
)
def test_of_any_shape(
    hidden: list[int], shared: bool, normalize: bool, activation: Any, scale: float, kind: Any, seed: int
) -> None:
    network = Network(
        kind="dense", hidden=hidden, shared=shared, normalize=normalize, activation=activation, input_scale=scale
    )
    check(Settings(network=network, algorithm=Algorithm(kind=kind)), BOX, ACTIONS["discrete"], seed)


def test_clip_norm_leaves_what_is_small_enough() -> None:
    for largest in (0.0, 5.0, 9.0):
        vector = np.array([3.0, 4.0], np.float32)
        assert clip_norm(vector, largest) == pytest.approx(5.0)
        assert vector.tolist() == [3.0, 4.0]
    assert clip_norm(vector, 2.5) == pytest.approx(5.0)
    assert vector.tolist() == [1.5, 2.0]


def test_a_long_gradient_is_clipped_and_one_that_is_not_finite_is_told() -> None:
    vector = np.array([3e30, 4e30], np.float32)
    assert clip_norm(vector, 1.0) == pytest.approx(5e30)
    np.testing.assert_allclose(vector, [0.6, 0.8], rtol=1e-6)
    for wrong in (np.inf, np.nan):
        assert not np.isfinite(clip_norm(np.array([1, wrong], np.float32), 1.0))
