from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from common.errors import CodecError
from common.rl.moments import Moments
from common.rl.networks.normalization import Normalization
from common.settings.codec_names import NAMES
from common.settings.sections import Optimizer
from common.wire.bodies.delta import DeltaFormat
from common.wire.bodies.weights import WeightsFormat
from common.wire.codecs.registry import make as make_codec
from learner.parameters.delay_compensation import Compensation
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.running_stats import Running
from learner.parameters.target_network import Target
from learner.parameters.weights import LARGEST_NORM, ParameterStore

SIZE = 500
RNG = np.random.default_rng(0)


def store_of(kind: str = "sgd", start: float = 1.0, **section: float) -> ParameterStore:
    vector = torch.full((SIZE,), start)
    settings = Optimizer(kind=kind, **({"step_size": 0.1} | section))  # type: ignore[arg-type]
    return ParameterStore(vector, make_optimizer(settings, vector, 0))


def random(count: int) -> NDArray[np.float32]:
    return RNG.standard_normal((count, SIZE)).astype(np.float32)


def packed(values: NDArray[np.float32], codec: str = "none") -> bytes:
    return make_codec(codec, SIZE).encode(torch.from_numpy(values))


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
            theta -= 0.1 * scale * gradient / np.sqrt(square + 1e-5)
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
            store.add(next(bodies), "none", weight)
        store.step(scale=sum(weights) / len(weights), frames=0)
    np.testing.assert_allclose(store.vector.numpy(), reference(kind, gradients, steps), rtol=2e-5, atol=2e-5)


def test_for_sgd_the_scaled_step_is_the_weighted_sum_itself() -> None:
    one, two = random(2)
    store = store_of()
    store.add(packed(one), "none", 1.0)
    store.add(packed(two), "none", 0.5)
    store.step(scale=0.75, frames=0)
    np.testing.assert_allclose(store.vector.numpy(), 1 - 0.1 * (one + 0.5 * two), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["sgd", "rmsprop", "adam"])
def test_the_second_gradient_changes_the_weights_as_the_first_did(kind: str) -> None:
    store = store_of(kind)
    gradient = packed(np.ones(SIZE, np.float32))
    changes = []
    for _ in range(3):
        before = store.vector.clone()
        store.add(gradient, "none", 1.0)
        store.step(scale=1.0, frames=0)
        changes.append(float((before - store.vector).mean()))
    assert min(changes) > 0.05


def test_nothing_of_a_step_is_left_over_for_the_next() -> None:
    store = store_of()
    store.add(packed(random(1)[0]), "none", 1.0)
    store.step(scale=1.0, frames=0)
    after = store.vector.clone()
    store.step(scale=1.0, frames=0)
    assert torch.equal(store.vector, after)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 3e38, 1e17])
def test_what_is_no_number_or_would_overflow_is_refused_with_nothing_added(poison: float) -> None:
    good, bad = random(1)[0], random(1)[0]
    bad[SIZE // 2] = poison
    store = store_of("adam")
    store.add(packed(good), "none", 1.0)
    with pytest.raises(CodecError, match=r"not finite|of norm"):
        store.add(packed(bad), "none", 1.0)
    store.step(scale=1.0, frames=0)
    np.testing.assert_allclose(store.vector.numpy(), reference("adam", good[None], [[1.0]]), rtol=2e-5, atol=2e-5)
    assert store.finite


def test_infinities_that_cancel_are_refused() -> None:
    values = np.zeros(SIZE, np.float32)
    values[:2] = np.inf, -np.inf
    with pytest.raises(CodecError):
        store_of().add(packed(values), "none", 1.0)


@pytest.mark.parametrize("kind", ["rmsprop", "adam"])
def test_as_many_of_the_largest_as_settings_allow_leave_the_weights_finite(kind: str) -> None:
    store = store_of(kind)
    values = np.zeros(SIZE, np.float32)
    values[0] = 0.999 * LARGEST_NORM
    for _ in range(256):
        store.add(packed(values), "none", 1.0)
    store.step(scale=1.0, frames=0)
    assert store.finite
    assert all(torch.isfinite(tensor).all() for tensor in store.optimizer.state().values())


@pytest.mark.parametrize("body", [b"", b"x", b"\0" * (4 * SIZE - 1), b"\0" * (4 * SIZE + 1)])
def test_a_body_of_another_size_is_refused(body: bytes) -> None:
    store = store_of()
    for codec in ("none", "fp16", "int8+zstd", "int8+lz4"):
        with pytest.raises(CodecError):
            store.add(body, codec, 1.0)
    with pytest.raises(CodecError, match="morse"):
        store.add(body, "morse", 1.0)
    store.step(scale=1.0, frames=0)
    assert torch.equal(store.vector, torch.ones(SIZE))


def test_top_k_is_read_with_the_fraction_of_the_settings() -> None:
    vector = torch.zeros(SIZE)
    store = ParameterStore(vector, make_optimizer(Optimizer(kind="sgd"), vector, 0), top_k=0.1)
    store.add(make_codec("top-k", SIZE, 0.1).encode(torch.ones(SIZE)), "top-k", 1.0)
    with pytest.raises(CodecError):
        store.add(make_codec("top-k", SIZE).encode(torch.ones(SIZE)), "top-k", 1.0)
    store.step(scale=1.0, frames=0)
    assert store.vector.count_nonzero() == SIZE // 10


@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_with_every_codec(codec: str, bad: float) -> None:
    values, store = random(1)[0], store_of()
    values[SIZE // 2] = bad
    with pytest.raises(CodecError, match="not finite"):
        store.add(packed(values, codec), codec, 1.0)


@pytest.mark.parametrize(("codec", "error"), [("fp16", 2e-3), ("int8+zstd", 0.02), ("int8+lz4", 0.02)])
def test_each_gradient_is_read_as_its_codec_says(codec: str, error: float) -> None:
    values = random(1)[0]
    store = store_of(learning_rate=1.0)
    store.add(packed(values, codec), codec, 1.0)
    store.step(scale=1.0, frames=0)
    np.testing.assert_allclose(1 - store.vector.numpy(), values, atol=error)


@pytest.mark.parametrize(("form", "codec", "size"), [("fp32", "none", 4), ("fp16", "fp16", 2)])
def test_the_body_is_the_weights_as_they_are_now(form: str, codec: str, size: int) -> None:
    store = store_of()
    out = torch.empty(SIZE)
    for expected in (1.0, 0.9):
        body = store.body(form)
        assert len(body) == size * SIZE
        assert store.body(form) is body, "made once per version"
        make_codec(codec, SIZE).decode(body, out)
        torch.testing.assert_close(out, torch.full((SIZE,), expected), atol=1e-3, rtol=0)
        store.add(packed(np.ones(SIZE, np.float32)), "none", 1.0)
        store.step(scale=1.0, frames=0)
    make_codec(codec, SIZE).decode(body, out)
    torch.testing.assert_close(out, torch.full((SIZE,), 0.9), atol=1e-3, rtol=0)


def test_deltas_are_against_the_keyframe_and_made_once_per_version() -> None:
    store, held, out = store_of(), torch.empty(SIZE), torch.empty(SIZE)
    with pytest.raises(RuntimeError):
        store.delta()
    WeightsFormat("fp32", SIZE).unpack(store.keyframe("fp32", 4), [held], torch.zeros(0))
    for expected in (1.0, 0.9, 0.8):
        body, _ = store.delta()
        assert store.delta()[0] is body
        DeltaFormat(SIZE).unpack(body, 4, held, [out], torch.zeros(0))
        torch.testing.assert_close(out, torch.full((SIZE,), expected), atol=2e-3, rtol=0)
        store.add(packed(np.ones(SIZE, np.float32)), "none", 1.0)
        store.step(scale=1.0, frames=0)


def test_the_step_is_annealed_by_the_frames_of_the_run() -> None:
    vector = torch.zeros(SIZE)
    section = Optimizer(kind="sgd", learning_rate=1.0, anneal="linear")
    store = ParameterStore(vector, make_optimizer(section, vector, 100))
    store.add(packed(np.ones(SIZE, np.float32)), "none", 1.0)
    store.step(scale=1.0, frames=75)
    torch.testing.assert_close(vector, torch.full((SIZE,), -0.25))


def test_weights_that_are_no_numbers_are_seen() -> None:
    store = store_of()
    assert store.finite
    store.vector[3] = torch.nan
    assert not store.finite


def test_what_rollouts_saw_counts_from_the_next_version_on() -> None:
    vector, extras = torch.zeros(SIZE), torch.zeros(1)
    running = Running(Normalization(0, rewards=True), extras)
    optimizer = make_optimizer(Optimizer(kind="sgd"), vector, 0)
    store = ParameterStore(vector, optimizer, extras=extras, running=running)
    assert store.moments is None
    store.add(packed(np.ones(SIZE, np.float32)), "none", 1.0)
    store.observe(Moments.from_rows(np.array([[0.0], [4.0]])))
    assert store.body("fp32")[-4:] == np.float32(1).tobytes()
    store.step(scale=1.0, frames=0)
    assert store.body("fp32")[-4:] == np.float32(0.5).tobytes()
    assert store.moments == (2, [2.0], [8.0])


def test_a_delay_is_slept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    vector = torch.zeros(SIZE)
    store = ParameterStore(vector, make_optimizer(Optimizer(kind="sgd"), vector, 0), delay_seconds=60.0)
    store.step(scale=1.0, frames=0)
    assert slept == []
    store.add(packed(np.ones(SIZE, np.float32)), "none", 1.0)
    store.step(scale=1.0, frames=0)
    assert 50.0 < slept[0] <= 60.0


@pytest.mark.parametrize("kind", ["rmsprop", "adam"])
def test_gradients_added_up_move_the_weights_as_far_as_one_by_one(kind: str) -> None:
    """Where gradients are mostly noise; a sum that is normalised like a single one would go half as far for four."""
    gradients = random(4_000)
    apart, together = store_of(kind), store_of(kind)
    for number, gradient in enumerate(gradients, start=1):
        apart.add(packed(gradient), "none", 1.0)
        apart.step(scale=1.0, frames=0)
        together.add(packed(gradient), "none", 1.0)
        if number % 4 == 0:
            together.step(scale=1.0, frames=0)
    summed = store_of(kind)
    for four in gradients.reshape(-1, 4, gradients.shape[1]):
        summed.add(packed(four.sum(axis=0)), "none", 1.0, count=4)
        summed.step(scale=1.0, frames=0)
    np.testing.assert_allclose(summed.vector.numpy(), together.vector.numpy(), rtol=1e-3, atol=1e-3)
    far, alike = (float((store.vector - 1).norm()) for store in (apart, together))
    assert 0.7 < alike / far < 1.4


@pytest.mark.parametrize("kind", ["sgd", "rmsprop", "adam"])
def test_a_store_that_averages_takes_one_step_with_the_plain_mean(kind: str) -> None:
    gradients = random(12)
    vectors = []
    for average in (True, False):
        vector = torch.ones(SIZE)
        section = Optimizer(kind=kind, learning_rate=0.1)  # type: ignore[arg-type]
        store = ParameterStore(vector, make_optimizer(section, vector, 0), average=average)
        for some in (gradients[:5], gradients[5:]):
            for one in some if average else [some.mean(axis=0)]:
                store.add(packed(one), "none", 1.0)
            store.step(scale=1.0, frames=0)
        vectors.append(vector.numpy())
    np.testing.assert_allclose(vectors[0], vectors[1], rtol=1e-4, atol=1e-5)


def test_gradients_of_older_weights_are_compensated_each_by_its_own_lag() -> None:
    vector, strength = torch.ones(SIZE), 0.5
    store = ParameterStore(
        vector,
        make_optimizer(Optimizer(kind="sgd", learning_rate=0.1), vector, 0),
        compensation=Compensation(vector, 0.5, 1),
    )
    assert store.reach == 0
    assert store_of().reach is None
    weights, expected = [np.ones(SIZE)], np.ones(SIZE)
    for lags in ([0], [0, 1], [2, 1, 0], [3]):
        gradients = random(len(lags))
        for g, lag in zip(gradients, lags, strict=True):
            store.add(packed(g), "none", 1.0, lag=lag)
            expected = expected - 0.1 * (g + strength * g * g * (weights[-1] - weights[-1 - lag]))
        store.step(scale=1.0, frames=0)
        weights.append(expected)
    assert store.reach == 4
    np.testing.assert_allclose(vector.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["fp32", "fp16"])
def test_the_target_network_travels_behind_the_weights_with_the_run_s_frames(form: str) -> None:
    vector, clock = torch.full((SIZE,), 1.0), torch.zeros(1)
    optimizer = make_optimizer(Optimizer(kind="sgd", learning_rate=0.5), vector, 0)
    store = ParameterStore(vector, optimizer, extras=clock, target=Target(vector.clone(), 100, clock, 0))
    received, copied, frames = torch.zeros(SIZE), torch.zeros(SIZE), torch.zeros(1)
    seen = []
    for number in (60, 90, 123_457):
        store.add(packed(np.full(SIZE, 1.0, np.float32)), "none", 1.0)
        store.step(scale=1.0, frames=number)
        WeightsFormat(form, SIZE, 2, 1).unpack(store.body(form), [received, copied], frames)
        seen.append((float(received[0]), float(copied[-1]), float(frames)))
    assert seen == [(0.5, 1.0, 60), (0.0, 1.0, 90), (-0.5, -0.5, 123_457)]
    assert torch.equal(store.state()["target"], copied)
