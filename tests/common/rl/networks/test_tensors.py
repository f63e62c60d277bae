"""The arrays of a device against numpy's, one by one, and in the loss of every algorithm."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from common.rl import arrays
from common.rl.action_spec import ActionSpec, discrete
from common.rl.algorithms.registry import METHODS
from common.rl.networks.tensors import TensorArrays
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm
from tests.helpers.rollouts import BOX, COPIES, STEPS, make, tensors

RNG = np.random.default_rng(3)
X = (4 * RNG.normal(size=(21, 5))).astype(np.float32)
COLUMNS = RNG.integers(5, size=21)
ROWS = RNG.random(21).astype(np.float32)
WHERE = RNG.random((21, 5)) < 0.7
CALLS: dict[str, tuple[Any, ...]] = {
    "exp": (X,),
    "log": (X * X + 1,),
    "tanh": (X,),
    "softplus": (10 * X,),
    "log_softmax": (X,),
    "largest": (X,),
    "smaller": (X, -X),
    "kept": (WHERE, X),
    "zeros_like": (X,),
    "copy": (X,),
    "pick": (X, COLUMNS),
    "mean_weights": (WHERE,),
    "accumulated": (X, 0.9 * WHERE.astype(np.float32)),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_is_numpy_s(name: str) -> None:
    ours = getattr(TensorArrays(), name)(*map(torch.from_numpy, CALLS[name]))
    expected = getattr(arrays.of(X), name)(*CALLS[name])
    assert ours.dtype == torch.float32
    assert_allclose(ours.numpy(), expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 20])
def test_accumulated_over_any_number_of_steps(steps: int) -> None:
    x, decay = X[:steps], np.float32(0.9) * WHERE[:steps]
    before = x.copy()
    found = TensorArrays().accumulated(torch.from_numpy(x), torch.from_numpy(decay))
    assert_allclose(found.numpy(), arrays.of(x).accumulated(x, decay), rtol=1e-5, atol=1e-5)
    assert (x == before).all()


def test_those_with_other_arguments() -> None:
    on, x = TensorArrays(), torch.from_numpy(X.copy())
    assert arrays.of(x).__class__ is TensorArrays
    for low, high in ((None, 1.0), (-0.5, 2.0)):
        assert_allclose(on.clipped(x, low, high).numpy(), arrays.of(X).clipped(X, low, high))
    for chosen in ([0, 3], [0, 1, 2, 3, 4]):
        assert_allclose(on.columns(x, chosen).numpy(), X[:, chosen])
    assert_allclose(on.kept(torch.from_numpy(WHERE), 0.9).numpy(), arrays.of(X).kept(WHERE, 0.9))
    assert_allclose(on.concatenated([x, x], 1).numpy(), np.concatenate([X, X], axis=1))
    added = X.copy()
    arrays.of(X).add_at(added, COLUMNS, ROWS)
    on.add_at(x, torch.from_numpy(COLUMNS), torch.from_numpy(ROWS))
    assert_allclose(x.numpy(), added)


ACTIONS = {
    "discrete": discrete(3),
    "multi-discrete": ActionSpec("multi-discrete", (2, 4, 3), (3,)),
    "squashed": ActionSpec("box", shape=(2,), squashed=(True, True), log_std="state"),
    "partly squashed": ActionSpec("box", shape=(3,), squashed=(False, True, False)),
}
SECTIONS = {
    "a3c": Algorithm(),
    "normalised": Algorithm(normalize_advantages=True, gae_lambda=0.8, rho_clip=1.5),
    "a2c": Algorithm(kind="a2c"),
    "ppo": Algorithm(kind="ppo", normalize_advantages=True),
    "one-step-q": Algorithm(kind="one-step-q"),
    "n-step-q": Algorithm(kind="n-step-q"),
    "one-step-sarsa": Algorithm(kind="one-step-sarsa"),
}


def loss_of(section: Algorithm, action: ActionSpec, rollout: Rollout, outputs: Any, target: Any) -> tuple[Any, Any]:
    loss = METHODS[section.kind].loss(section, outputs, rollout, action, target)
    return loss.derivative, [float(one) for one in loss.statistics]


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("kind", ACTIONS)
def test_every_loss_is_that_of_numpy(name: str, kind: str) -> None:
    section, action = SECTIONS[name], ACTIONS[kind]
    if METHODS[section.kind].has_target and kind != "discrete":
        pytest.skip("learns a value for each of some actions")
    _, rollout = make(BOX, action=action)
    there: Any = tensors(rollout)
    shape = ((STEPS + 1) * COPIES, action.width + 1)
    outputs, target = (RNG.normal(size=shape).astype(np.float32) for _ in range(2))
    derivative, statistics = loss_of(section, action, rollout, outputs, target)
    found, figures = loss_of(section, action, there, torch.from_numpy(outputs), torch.from_numpy(target))
    assert (found.dtype, tuple(found.shape)) == (torch.float32, shape)
    assert_allclose(found.numpy(), derivative, rtol=1e-4, atol=1e-6)
    assert_allclose(figures, statistics, rtol=1e-4, atol=1e-6)
    assert np.abs(derivative).max() > 0


def test_without_a_valid_step_there_is_no_derivative() -> None:
    _, rollout = make(BOX)
    nothing = dataclasses.replace(rollout, valid=np.zeros_like(rollout.valid))
    outputs = torch.from_numpy(RNG.normal(size=((STEPS + 1) * COPIES, 4)).astype(np.float32))
    for section in (SECTIONS["normalised"], SECTIONS["ppo"]):
        derivative, _ = loss_of(section, ACTIONS["discrete"], tensors(nothing), outputs, None)
        assert not derivative.any()
