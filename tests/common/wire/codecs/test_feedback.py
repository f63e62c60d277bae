from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from common.settings.codec_names import COARSE, NAMES, PARTS
from common.wire.codecs.feedback import ErrorFeedback
from common.wire.codecs.registry import PackedCodec, make
from tests.helpers.bounds import bound

SIZE = 700
LOSSY = pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("none")])
FINE = pytest.mark.parametrize("name", [name for name in NAMES if PARTS[name][0] not in ("none", *COARSE)])
ROUGH = pytest.mark.parametrize("name", COARSE)


def gradients(count: int) -> list[torch.Tensor]:
    """Mostly alike, of very different magnitudes: what rounding loses again and again."""
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(SIZE, generator=generator).pow(5) * 1e-3
    return [mean + 1e-5 * torch.randn(SIZE, generator=generator) for _ in range(count)]


def decoded(packed: PackedCodec, body: bytes) -> torch.Tensor:
    out = torch.empty(SIZE)
    packed.decode(body, out.numpy())
    return out.double()


@FINE
def test_the_decoded_sum_is_the_sum_once_the_residual_is_flushed(name: str) -> None:
    packed = make(name, SIZE)
    feedback = ErrorFeedback(packed)
    vectors = gradients(30)
    total = expected = torch.zeros(SIZE, dtype=torch.float64)
    for vector in [*vectors, *[torch.zeros(SIZE)] * 6]:
        total = total + decoded(packed, feedback.encode(vector.numpy()))
        expected = expected + vector.double()
    assert torch.allclose(total, expected, rtol=1e-6, atol=1e-7)


@FINE
def test_the_error_of_the_sum_never_exceeds_that_of_one_vector(name: str) -> None:
    packed = make(name, SIZE)
    feedback = ErrorFeedback(packed)
    error = plain_error = torch.zeros(SIZE, dtype=torch.float64)
    for vector in gradients(30):
        allowed = bound(packed, vector - error.float())
        error = error + decoded(packed, feedback.encode(vector.numpy())) - vector.double()
        plain_error = plain_error + decoded(packed, packed.encode(vector.numpy())) - vector.double()
        assert (error.abs() <= 1.001 * allowed + 1e-7).all()
    assert error.norm() < 0.2 * plain_error.norm()


@ROUGH
def test_what_is_owed_is_the_vectors_less_what_was_sent_and_stays_bounded(name: str) -> None:
    feedback = ErrorFeedback(make(name, SIZE, 0.1))
    owed = torch.zeros(SIZE, dtype=torch.float64)
    norms = []
    for vector in gradients(400):
        owed = owed + vector.double() - decoded(feedback.packed, feedback.encode(vector.numpy()))
        assert np.allclose(feedback.residual, owed, atol=1e-5)
        norms.append(owed.norm().item())
    assert max(norms[200:]) < 1.2 * max(norms[:200]), "it grows without end"
    assert norms[-1] < 0.25 * sum(vector.double() for vector in gradients(400)).norm(), "most has come through"


def test_a_lossless_codec_carries_nothing() -> None:
    packed = make("none+lz4", SIZE)
    feedback = ErrorFeedback(packed)
    for vector in gradients(3):
        assert feedback.encode(vector.numpy()) == packed.encode(vector.numpy())


@LOSSY
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_bad_gradient_is_sent_as_bad_and_spoils_none_after_it(name: str, bad: float) -> None:
    feedback, untroubled = (ErrorFeedback(make(name, SIZE)) for _ in range(2))
    first, second, third = gradients(3)
    spoilt = second.clone()
    spoilt[5] = bad
    assert feedback.encode(first.numpy()) == untroubled.encode(first.numpy())
    assert not decoded(feedback.packed, feedback.encode(spoilt.numpy()))[5].isfinite()
    assert feedback.encode(third.numpy()) == untroubled.encode(third.numpy())


@LOSSY
def test_a_dropped_body_leaves_all_as_if_it_had_not_been(name: str) -> None:
    feedback, untroubled = (ErrorFeedback(make(name, SIZE)) for _ in range(2))
    first, second, third = gradients(3)
    assert feedback.encode(first.numpy(), 1) == untroubled.encode(first.numpy(), 1)
    feedback.answered(1, dropped=False)
    untroubled.answered(1, dropped=False)
    feedback.encode((second * 1e9).numpy(), 2)
    feedback.answered(2, dropped=True)
    assert feedback.encode(third.numpy(), 3) == untroubled.encode(third.numpy(), 3)


@ROUGH
@pytest.mark.parametrize("unanswered", [1, 3])
def test_the_residual_never_travels_longer_than_its_bound_and_what_is_beyond_is_forgotten(
    name: str, unanswered: int
) -> None:
    vector = gradients(1)[0]
    longest = 2.0 * vector.norm().item()
    feedback = ErrorFeedback(make(name, SIZE, 0.01), longest)
    for number in range(300):
        body = decoded(feedback.packed, feedback.encode(vector.numpy(), number))
        assert body.norm() <= 1.01 * (vector.norm() + longest)
        if number >= unanswered:
            feedback.answered(number - unanswered, dropped=False)
    assert np.linalg.norm(feedback.residual) <= (1.01 + unanswered) * (longest + vector.norm())


def test_while_a_body_is_open_its_loss_is_carried_and_only_the_first_answer_counts() -> None:
    feedback, closed = (ErrorFeedback(make("sign", SIZE)) for _ in range(2))
    first, second = gradients(2)
    feedback.encode(first.numpy(), 1)
    closed.encode(first.numpy())
    assert feedback.encode(second.numpy(), 2) == closed.encode(second.numpy())
    feedback.answered(1, dropped=False)
    feedback.answered(1, dropped=True)
    feedback.answered(7, dropped=True)
    assert np.allclose(feedback.residual, closed.residual, atol=1e-9)
    feedback.reset()
    feedback.answered(2, dropped=False)
    assert not feedback.residual.any()


@LOSSY
def test_reset_forgets(name: str) -> None:
    packed = make(name, SIZE)
    feedback = ErrorFeedback(packed)
    first, second = gradients(2)
    feedback.encode(first.numpy())
    assert feedback.encode(second.numpy()) != packed.encode(second.numpy())
    feedback.reset()
    assert feedback.encode(second.numpy()) == packed.encode(second.numpy())


def test_the_vector_is_left_alone() -> None:
    vector = gradients(1)[0]
    before = vector.clone()
    ErrorFeedback(make("int8", SIZE)).encode(vector.numpy())
    assert torch.equal(vector, before)


@pytest.mark.parametrize("name", ["int8", "sign"])
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_what_is_applied_and_still_owed_is_the_sum_of_the_vectors_that_were_not_dropped(
    name: str, steps: list[tuple[bool, bool]]
) -> None:
    feedback = ErrorFeedback(make(name, SIZE))
    vectors = gradients(len(steps))
    unanswered: list[tuple[int, bool]] = []
    applied = expected = torch.zeros(SIZE, dtype=torch.float64)
    for number, (vector, (answers_oldest, dropped)) in enumerate(zip(vectors, steps, strict=True)):
        body = decoded(feedback.packed, feedback.encode(vector.numpy(), number))
        unanswered.append((number, dropped))
        if not dropped:
            applied = applied + body
            expected = expected + vector.double()
        if answers_oldest:
            oldest, was_dropped = unanswered.pop(0)
            feedback.answered(oldest, dropped=was_dropped)
    for oldest, was_dropped in unanswered:
        feedback.answered(oldest, dropped=was_dropped)
    assert torch.allclose(applied + torch.from_numpy(feedback.residual), expected, rtol=1e-4, atol=1e-6)
