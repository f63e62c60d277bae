"""Every optimizer against its formula, step by step in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from common.errors import ConfigurationError
from common.settings.sections import Optimizer
from learner.parameters import optimizers
from learner.parameters.optimizers import make

SIZE, STEPS = 33, 12
RNG = np.random.default_rng(8)
START = RNG.normal(size=SIZE).astype(np.float32)
# Spread over magnitudes, so that epsilon matters for some elements and not for others.
GRADIENTS = (RNG.normal(size=(STEPS, SIZE)) * 10.0 ** RNG.uniform(-5, 1, SIZE)).astype(np.float32)
SCALES = RNG.uniform(0.2, 1.0, STEPS)
FRAMES = np.arange(STEPS) * 100
TOTAL = 1000


def adam_reference(s: Optimizer, theta: np.ndarray, rates: np.ndarray) -> np.ndarray:
    beta1 = 0.9 if s.beta1 is None else s.beta1
    mean, square = np.zeros(SIZE), np.zeros(SIZE)
    for t, (d, rate) in enumerate(zip(GRADIENTS.astype(np.float64), rates, strict=True), start=1):
        mean = beta1 * mean + (1 - beta1) * d
        square = s.beta2 * square + (1 - s.beta2) * d**2
        corrected = mean / (1 - beta1**t), square / (1 - s.beta2**t)
        theta = theta - rate * corrected[0] / (np.sqrt(corrected[1]) + s.epsilon)
    return theta


def rmsprop_reference(s: Optimizer, theta: np.ndarray, rates: np.ndarray) -> np.ndarray:
    g = np.zeros(SIZE)
    for t, (d, rate) in enumerate(zip(GRADIENTS.astype(np.float64), rates, strict=True), start=1):
        g = s.decay * g + (1 - s.decay) * d**2
        theta = theta - rate * d / np.sqrt(g / (1 - s.decay**t) + s.epsilon)
    return theta


def sgd_reference(s: Optimizer, theta: np.ndarray, rates: np.ndarray) -> np.ndarray:
    m = np.zeros(SIZE)
    for d, rate in zip(GRADIENTS.astype(np.float64), rates, strict=True):
        m = s.momentum * m + d
        theta = theta - rate * m
    return theta


Reference = Callable[[Optimizer, np.ndarray, np.ndarray], np.ndarray]
CASES: list[tuple[dict[str, Any], Reference]] = [
    ({"kind": "adam", "epsilon": 1e-3}, adam_reference),
    ({"kind": "adam", "beta1": 0.0, "beta2": 0.9}, adam_reference),
    ({"kind": "rmsprop", "epsilon": 0.1}, rmsprop_reference),
    ({"kind": "rmsprop", "decay": 0.9}, rmsprop_reference),
    ({"kind": "sgd"}, sgd_reference),
    ({"kind": "sgd", "momentum": 0.8}, sgd_reference),
]


def run(optimizer: optimizers.FlatOptimizer, steps: range) -> None:
    for i in steps:
        optimizer.step(torch.from_numpy(GRADIENTS[i].copy()), scale=float(SCALES[i]), frames=int(FRAMES[i]))


@pytest.mark.parametrize(("values", "reference"), CASES)
@pytest.mark.parametrize("anneal", ["constant", "linear"])
def test_equals_the_formula(values: dict[str, Any], reference: Reference, anneal: Any) -> None:
    section = Optimizer(learning_rate=0.04, anneal=anneal, **values)
    vector = torch.from_numpy(START.copy())
    run(make(section, vector, TOTAL), range(STEPS))
    left = np.maximum(0.0, 1 - FRAMES / TOTAL) if anneal == "linear" else 1.0
    expected = reference(section, START.astype(np.float64), 0.04 * SCALES * left)
    assert np.abs(expected - START).max() > 0.05
    np.testing.assert_allclose(vector.numpy(), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("values", [values for values, _ in CASES])
def test_loading_the_state_continues_bit_exactly(values: dict[str, Any]) -> None:
    section = Optimizer(learning_rate=0.02, **values)
    whole = torch.from_numpy(START.copy())
    run(make(section, whole, 0), range(STEPS))

    first = torch.from_numpy(START.copy())
    before = make(section, first, 0)
    run(before, range(5))
    state = {name: tensor.clone() for name, tensor in before.state().items()}
    second = first.clone()
    after = make(section, second, 0)
    after.load(state)
    run(after, range(5, STEPS))
    assert torch.equal(second, whole)


def test_no_first_step_is_longer_than_the_learning_rate() -> None:
    for kind in ("adam", "rmsprop"):
        vector = torch.zeros(2)
        make(Optimizer(kind=kind, learning_rate=0.5, epsilon=1e-12), vector, 0).step(
            torch.tensor([3.0, -1e-3]), scale=1.0, frames=0
        )
        assert vector.tolist() == pytest.approx([-0.5, 0.5], rel=1e-3), kind


@pytest.mark.parametrize("values", [values for values, _ in CASES])
def test_steps_not_taken_change_nothing(values: dict[str, Any]) -> None:
    steps = {True: torch.from_numpy(START.copy()), False: torch.from_numpy(START.copy())}
    for with_others, vector in steps.items():
        optimizer = make(Optimizer(**values), vector, 0)
        for gradient in GRADIENTS:
            if with_others:
                optimizer.step(torch.full((SIZE,), float("nan")), scale=1.0, frames=0, taken=torch.tensor(False))
            optimizer.step(torch.from_numpy(gradient.copy()), scale=1.0, frames=0, taken=torch.tensor(True))
    assert torch.isfinite(steps[True]).all()
    assert torch.equal(steps[True], steps[False])


def test_a_state_of_before_the_correction_is_one_of_a_long_run() -> None:
    moved = []
    for weight in ({}, {"weight": torch.tensor(1.0)}):
        vector = torch.zeros(2)
        optimizer = make(Optimizer(kind="rmsprop", learning_rate=0.5), vector, 0)
        optimizer.load({"square": torch.full((2,), 4.0), **weight})
        optimizer.step(torch.ones(2), scale=1.0, frames=0)
        moved.append(float(vector[0]))
    assert moved[0] == moved[1] == pytest.approx(-0.5 / 3.97**0.5, rel=1e-3)


def test_a_gradient_is_left_as_it_is() -> None:
    for values, _ in CASES:
        gradient = torch.from_numpy(GRADIENTS[0].copy())
        make(Optimizer(**values), torch.zeros(SIZE), 0).step(gradient, scale=0.5, frames=0)
        assert np.array_equal(gradient.numpy(), GRADIENTS[0])


def test_the_learning_rate_is_annealed_to_zero_and_not_below() -> None:
    optimizer = make(Optimizer(learning_rate=0.5, anneal="linear"), torch.zeros(2), 1000)
    assert optimizer.learning_rate == 0.5
    for frames, expected in ((250, 0.375), (1000, 0.0), (2000, 0.0)):
        optimizer.step(torch.ones(2), scale=0.1, frames=frames)
        assert optimizer.learning_rate == expected


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    optimizer = make(Optimizer(kind="adam"), torch.zeros(3), 0)
    good = {name: torch.ones_like(tensor) for name, tensor in optimizer.state().items()}
    with pytest.raises(ConfigurationError, match=r"adam needs.*'mean'.*'square'.*'steps'.*there is \{'square'"):
        optimizer.load({"square": torch.ones(3)})
    with pytest.raises(ConfigurationError, match=r"'square': \(3,\).*there is.*'square': \(4,\)"):
        optimizer.load({**good, "square": torch.ones(4)})
    assert not any(tensor.any() for tensor in optimizer.state().values())


def test_the_factor_is_on_the_length_of_every_step() -> None:
    for kind in ("adam", "rmsprop", "sgd"):
        moved = []
        for factor in (1.0, 0.25):
            vector = torch.zeros(2)
            optimizer = make(Optimizer(kind=kind, learning_rate=0.5, anneal="linear"), vector, 1000)
            optimizer.factor = factor
            optimizer.step(torch.ones(2), scale=0.5, frames=500)
            moved.append(float(vector[0]))
            assert optimizer.step_size == 0.5 * 0.5 * 0.5 * factor, "annealed, and scaled"
        assert moved[1] == pytest.approx(moved[0] / 4), kind
