from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from common.errors import CodecError
from common.settings.codec_names import NAMES
from common.settings.sections import Optimizer
from common.wire.codecs.registry import make as make_codec
from learner.parameters.delay_compensation import DelayCompensation
from learner.parameters.gradient_bound import LARGEST_NORM, GradientBound
from learner.parameters.gradient_sum import GradientSum
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.weights import Weights

SIZE = 500
RNG = np.random.default_rng(0)


def sum_of(section: Optimizer, start: float = 1.0, frames: int = 0, **options: Any) -> GradientSum:
    optimizer = make_optimizer(section, torch.full((SIZE,), start), frames)
    return GradientSum(Weights(optimizer, np.zeros(0, np.float32)), **options)


def store_of(kind: str = "sgd", **section: float) -> GradientSum:
    return sum_of(Optimizer(kind=kind, **({"learning_rate": 0.1} | section)))  # type: ignore[arg-type]


def random(count: int) -> NDArray[np.float32]:
    return RNG.standard_normal((count, SIZE)).astype(np.float32)


def packed(values: NDArray[np.float32], codec: str = "none") -> bytes:
    return make_codec(codec, SIZE).encode(values)


def reference(kind: str, gradients: NDArray[np.float32], steps: list[list[float]]) -> NDArray[np.float64]:
    """Weights in float64 after steps with these weights each; epsilon 1e-5, step size 0.1."""
    theta, mean, square = np.ones(SIZE), np.zeros(SIZE), np.zeros(SIZE)
    used = iter(gradients.astype(np.float64))
    for number, weights in enumerate(steps, start=1):
        scale, root = sum(weights) / len(weights), len(weights) ** 0.5
        gradient = sum(weight * next(used) for weight in weights) / scale / root
        scale *= root
        if kind == "sgd":
            theta -= 0.1 * scale * gradient
        elif kind == "rmsprop":
            square = 0.99 * square + 0.01 * gradient**2
            theta -= 0.1 * scale * gradient / np.sqrt(square / (1 - 0.99**number) + 1e-5)
        else:
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient**2
            spread = np.sqrt(square / (1 - 0.999**number)) + 1e-5
            theta -= 0.1 * scale * (mean / (1 - 0.9**number)) / spread
    return theta


@pytest.mark.parametrize("kind", ["sgd", "rmsprop", "adam"])
def test_adding_and_stepping_is_what_it_is_in_float64(kind: str) -> None:
    steps = [[1.0, 1.0, 1.0], [0.5], [1.0, 0.25], [1.0] * 5]
    gradients = random(11)
    store, bodies = store_of(kind), iter([packed(one) for one in gradients])
    for weights in steps:
        for weight in weights:
            store.add(next(bodies), "none", weight=weight)
        store.step(scale=sum(weights) / len(weights), frames=0)
    np.testing.assert_allclose(store.weights.vector.numpy(), reference(kind, gradients, steps), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("codec", ["none", "none+lz4", "int8"])
def test_a_body_is_read_and_never_written(codec: str) -> None:
    gradients = [packed(one, codec) for one in random(3)]
    bodies = [bytearray(one) for one in gradients]
    store = store_of()
    for _ in range(2):
        for body in bodies:
            store.add(memoryview(body), codec, weight=0.5)
        store.step(scale=0.5, frames=0)
    assert [bytes(body) for body in bodies] == gradients


def test_for_sgd_the_scaled_step_is_the_weighted_sum_itself() -> None:
    one, two = random(2)
    store = store_of()
    store.add(packed(one), "none", weight=1.0)
    store.add(packed(two), "none", weight=0.5)
    store.step(scale=0.75, frames=0)
    np.testing.assert_allclose(store.weights.vector.numpy(), 1 - 0.1 * (one + 0.5 * two), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["sgd", "rmsprop", "adam"])
def test_the_second_gradient_changes_the_weights_as_the_first_did(kind: str) -> None:
    store = store_of(kind)
    gradient = packed(np.ones(SIZE, np.float32))
    changes = []
    for _ in range(3):
        before = store.weights.vector.clone()
        store.add(gradient, "none", weight=1.0)
        store.step(scale=1.0, frames=0)
        changes.append(float((before - store.weights.vector).mean()))
    assert min(changes) > 0.05


def test_nothing_of_a_step_is_left_over_for_the_next() -> None:
    store = store_of()
    store.add(packed(random(1)[0]), "none", weight=1.0)
    store.step(scale=1.0, frames=0)
    after = store.weights.vector.clone()
    store.step(scale=1.0, frames=0)
    assert torch.equal(store.weights.vector, after)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 3e38, 1e17])
def test_what_is_no_number_or_would_overflow_is_refused_with_nothing_added(poison: float) -> None:
    good, bad = random(1)[0], random(1)[0]
    bad[SIZE // 2] = poison
    store = store_of("adam")
    store.add(packed(good), "none", weight=1.0)
    with pytest.raises(CodecError, match=r"not finite|of norm"):
        store.add(packed(bad), "none", weight=1.0)
    store.step(scale=1.0, frames=0)
    np.testing.assert_allclose(
        store.weights.vector.numpy(), reference("adam", good[None], [[1.0]]), rtol=2e-5, atol=2e-5
    )
    assert store.weights.finite


def test_infinities_that_cancel_are_refused() -> None:
    values = np.zeros(SIZE, np.float32)
    values[:2] = np.inf, -np.inf
    with pytest.raises(CodecError):
        store_of().add(packed(values), "none", weight=1.0)


@pytest.mark.parametrize("kind", ["rmsprop", "adam"])
def test_as_many_of_the_largest_as_settings_allow_leave_the_weights_finite(kind: str) -> None:
    store = store_of(kind)
    values = np.zeros(SIZE, np.float32)
    values[0] = 0.999 * LARGEST_NORM
    for _ in range(256):
        store.add(packed(values), "none", weight=1.0)
    store.step(scale=1.0, frames=0)
    assert store.weights.finite
    assert all(torch.isfinite(tensor).all() for tensor in store.weights.optimizer.state().values())


@pytest.mark.parametrize("body", [b"", b"x", b"\0" * (4 * SIZE - 1), b"\0" * (4 * SIZE + 1)])
def test_a_body_of_another_size_is_refused(body: bytes) -> None:
    store = store_of()
    for codec in ("none", "fp16", "int8+zstd", "int8+lz4"):
        with pytest.raises(CodecError):
            store.add(body, codec, weight=1.0)
    with pytest.raises(CodecError, match="morse"):
        store.add(body, "morse", weight=1.0)
    store.step(scale=1.0, frames=0)
    assert torch.equal(store.weights.vector, torch.ones(SIZE))


def test_top_k_is_read_with_the_fraction_of_the_settings() -> None:
    store = sum_of(Optimizer(kind="sgd"), start=0.0, top_k=0.1)
    store.add(make_codec("top-k", SIZE, 0.1).encode(np.ones(SIZE, np.float32)), "top-k", weight=1.0)
    with pytest.raises(CodecError):
        store.add(make_codec("top-k", SIZE).encode(np.ones(SIZE, np.float32)), "top-k", weight=1.0)
    store.step(scale=1.0, frames=0)
    assert store.weights.vector.count_nonzero() == SIZE // 10


@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_with_every_codec(codec: str, bad: float) -> None:
    values, store = random(1)[0], store_of()
    values[SIZE // 2] = bad
    with pytest.raises(CodecError, match="not finite"):
        store.add(packed(values, codec), codec, weight=1.0)


@pytest.mark.parametrize(("codec", "error"), [("fp16", 2e-3), ("int8+zstd", 0.02), ("int8+lz4", 0.02)])
def test_each_gradient_is_read_as_its_codec_says(codec: str, error: float) -> None:
    values = random(1)[0]
    store = store_of(learning_rate=1.0)
    store.add(packed(values, codec), codec, weight=1.0)
    store.step(scale=1.0, frames=0)
    np.testing.assert_allclose(1 - store.weights.vector.numpy(), values, atol=error)


def test_the_step_is_annealed_by_the_frames_of_the_run() -> None:
    store = sum_of(Optimizer(kind="sgd", learning_rate=1.0, anneal="linear"), start=0.0, frames=100)
    store.add(packed(np.ones(SIZE, np.float32)), "none", weight=1.0)
    store.step(scale=1.0, frames=75)
    torch.testing.assert_close(store.weights.vector, torch.full((SIZE,), -0.25))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rmsprop", "adam"])
def test_gradients_added_up_move_the_weights_as_far_as_one_by_one(kind: str) -> None:
    """Where gradients are mostly noise; a sum that is normalised like a single one would go half as far for four."""
    gradients = random(4_000)
    apart, together = store_of(kind), store_of(kind)
    for number, gradient in enumerate(gradients, start=1):
        apart.add(packed(gradient), "none", weight=1.0)
        apart.step(scale=1.0, frames=0)
        together.add(packed(gradient), "none", weight=1.0)
        if number % 4 == 0:
            together.step(scale=1.0, frames=0)
    summed = store_of(kind)
    for four in gradients.reshape(-1, 4, gradients.shape[1]):
        summed.add(packed(four.sum(axis=0)), "none", weight=1.0, count=4)
        summed.step(scale=1.0, frames=0)
    np.testing.assert_allclose(summed.weights.vector.numpy(), together.weights.vector.numpy(), rtol=1e-3, atol=1e-3)
    far, alike = (float((store.weights.vector - 1).norm()) for store in (apart, together))
    assert 0.7 < alike / far < 1.4


@pytest.mark.parametrize("kind", ["sgd", "rmsprop", "adam"])
def test_a_store_that_averages_takes_one_step_with_the_plain_mean(kind: str) -> None:
    gradients = random(12)
    vectors = []
    for average in (True, False):
        section = Optimizer(kind=kind, learning_rate=0.1)  # type: ignore[arg-type]
        store = sum_of(section, average=average)
        for some in (gradients[:5], gradients[5:]):
            for one in some if average else [some.mean(axis=0)]:
                store.add(packed(one), "none", weight=1.0)
            store.step(scale=1.0, frames=0)
        vectors.append(store.weights.vector.numpy())
    np.testing.assert_allclose(vectors[0], vectors[1], rtol=1e-4, atol=1e-5)


def test_gradients_of_older_weights_are_compensated_each_by_its_own_lag() -> None:
    strength = 0.5
    compensation = DelayCompensation(torch.ones(SIZE), strength, 1)
    store = sum_of(Optimizer(kind="sgd", learning_rate=0.1), compensation=compensation)
    assert store.reach == 0
    assert store_of().reach is None
    weights, expected = [np.ones(SIZE)], np.ones(SIZE)
    for lags in ([0], [0, 1], [2, 1, 0], [3]):
        gradients = random(len(lags))
        for g, lag in zip(gradients, lags, strict=True):
            store.add(packed(g), "none", weight=1.0, lag=lag)
            expected = expected - 0.1 * (g + strength * g * g * (weights[-1] - weights[-1 - lag]))
        store.step(scale=1.0, frames=0)
        weights.append(expected)
    assert store.reach == 4
    np.testing.assert_allclose(store.weights.vector.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["sgd", "rmsprop", "adam"])
def test_one_gradient_longer_than_any_clipped_one_is_refused_with_the_numbers_and_the_run_learns_on(kind: str) -> None:
    """A single one of norm 1e15 would stop Adam for tens of thousands of steps, and throw SGD's weights away."""
    store = sum_of(Optimizer(kind=kind, learning_rate=0.1), bound=GradientBound(max_grad_norm=0.5))  # type: ignore[arg-type]
    honest = random(1)[0]
    honest *= 0.5 / np.linalg.norm(honest)
    store.add(packed(4 * honest), "none", weight=1.0, count=4)
    with pytest.raises(CodecError, match=r"of norm 1e\+15, at most 0\.535 is possible.*max_grad_norm = 0\.5"):
        store.add(packed(honest * np.float32(2e15)), "none", weight=1.0)
    with pytest.raises(CodecError, match=r"at most 1\.07 is possible, since each of its 2 rollouts"):
        store.add(packed(4 * honest), "none", weight=1.0, count=2)
    before = store.weights.vector.clone()
    store.step(scale=1.0, frames=0)
    assert 1e-3 < (store.weights.vector - before).norm() < 100
