from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import CodecError
from common.rl.dense.model import clip_norm
from common.settings.codec_names import COARSE, NAMES, PARTS, feeds_back
from common.wire.codecs.feedback import RESIDUAL_ROLLOUTS, ErrorFeedback
from common.wire.codecs.registry import make
from learner.parameters.gradient_bound import LARGEST_NORM, GradientBound
from tests.helpers.examples import examples

KINDS = sorted({PARTS[name][0] for name in NAMES})
CLIP = 0.5


def gradients(seed: int, size: int, count: int, tail: float) -> torch.Tensor:
    """(count, size), each of norm CLIP at most; the larger `tail`, the fewer elements hold most of it."""
    values = np.random.default_rng(seed).standard_normal((count, size))
    rows = torch.from_numpy((np.sign(values) * np.abs(values) ** tail).astype(np.float32))
    for row in rows:
        clip_norm(row.numpy(), CLIP)
    return rows


def norm_of(body: bytes, codec: str, size: int) -> float:
    out = torch.empty(size)
    make(codec, size).decode(body, out.numpy())
    return float(torch.linalg.vector_norm(out))


@settings(max_examples=examples(60))
@given(
    codec=st.sampled_from(KINDS),
    size=st.integers(1, 2000),
    count=st.integers(1, 16),
    tail=st.floats(0.0, 8.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_an_honest_gradient_is_never_too_long_with_any_codec(
    codec: str, size: int, count: int, tail: float, seed: int
) -> None:
    bound = GradientBound(CLIP)
    body = make(codec, size).encode(gradients(seed, size, count, tail).sum(0).numpy())
    bound.check(norm_of(body, codec, size), codec, count, size)
    alike = gradients(seed, size, 1, tail)[0] * count
    bound.check(norm_of(make(codec, size).encode(alike.numpy()), codec, size), codec, count, size)


@settings(max_examples=examples(20))
@given(
    codec=st.sampled_from([*COARSE, "int8"]),
    size=st.integers(1, 600),
    alike=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_nor_is_one_with_the_residual_of_many_before_it(codec: str, size: int, alike: bool, seed: int) -> None:
    bound = GradientBound(CLIP, error_feedback=True)
    feedback = ErrorFeedback(make(codec, size), RESIDUAL_ROLLOUTS * CLIP)
    rows = gradients(seed, size, 40, 1.0)
    for number in range(120):
        vector = rows[0] if alike else rows[number % 40]
        body = feedback.encode(vector.numpy(), number)
        bound.check(norm_of(body, codec, size), codec, 1, size)
        feedback.answered(number, dropped=number % 7 == 0)


def test_what_is_longer_is_refused_with_both_numbers() -> None:
    bound = GradientBound(CLIP)
    with pytest.raises(CodecError, match=r"of norm 0\.55, at most 0\.535 is possible.*its 1 rollouts.*= 0\.5"):
        bound.check(0.55, "none", 1, 10)
    bound.check(0.55, "none", 2, 10)
    for bad in (math.nan, math.inf):
        with pytest.raises(CodecError, match="not finite"):
            bound.check(bad, "none", 1, 10)


def test_the_residual_counts_only_where_there_is_one() -> None:
    auto, never = GradientBound(CLIP), GradientBound(CLIP, error_feedback=False)
    assert auto.largest("top-k", 1, 10) > RESIDUAL_ROLLOUTS * CLIP > auto.largest("int8", 1, 10)
    assert never.largest("int8", 1, 10) == auto.largest("int8", 1, 10)
    assert feeds_back(True, "int8") and GradientBound(CLIP, True).largest("int8", 1, 10) > RESIDUAL_ROLLOUTS * CLIP


def test_without_clipping_only_what_optimizers_can_square_is_the_bound() -> None:
    bound = GradientBound(0.0)
    bound.check(0.99 * LARGEST_NORM, "none", 1, 10)
    with pytest.raises(CodecError, match=r"at most 1e\+16 is possible$"):
        bound.check(1.01 * LARGEST_NORM, "none", 1, 10)


def test_a_relay_s_sum_may_be_longer_by_what_packing_it_twice_makes_of_it_and_not_much_more() -> None:
    bound = GradientBound(CLIP)
    once, twice = (bound.largest("int8", 16, 1000, summed=summed) for summed in (False, True))
    assert once < twice < 1.08 * once
    with pytest.raises(CodecError, match="at most"):
        bound.check(twice + 0.1, "int8", 16, 1000, summed=True)
    bound.check(twice - 0.1, "int8", 16, 1000, summed=True)
    assert GradientBound(0.0).largest("int8", 16, 1000, summed=True) == LARGEST_NORM


@pytest.mark.parametrize("codec", COARSE)
def test_each_gradient_in_a_sum_may_have_brought_what_its_actor_owed(codec: str) -> None:
    bound = GradientBound(CLIP)
    most = 4 * bound.largest(codec, 1, 100)
    assert most < bound.largest(codec, 4, 100, summed=True) < 1.6 * most
