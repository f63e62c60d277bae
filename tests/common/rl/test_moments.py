"""Merged moments against numpy's over all vectors at once; and what peers may not say."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import CodecError, ConfigurationError
from common.rl.moments import MAX_MEAN, Moments, Plain
from common.rl.normalization import Normalization

RNG = np.random.default_rng(8)
ANYTHING = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([1e30, -1e30, 1e300, 0.0, 1.0])


def merged(parts: list[np.ndarray[Any, Any]]) -> Moments:
    total = Moments.empty(3)
    for part in parts:
        total = total.merged(Moments.from_rows(part))
    return total


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_merging_is_as_counting_at_once(offset: float) -> None:
    values = (offset + RNG.normal(size=(1000, 3)) * [0.1, 1.0, 30.0]).astype(np.float32)
    parts = [values[:1], values[1:1], values[1:17], values[17:800], values[800:]]
    for order in (parts, parts[::-1]):
        total = merged(order)
        assert total.count == 1000
        np.testing.assert_allclose(total.means, values.astype(np.float64).mean(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(total.variances, values.astype(np.float64).var(axis=0), rtol=1e-9)


def test_nothing_changes_nothing() -> None:
    assert Moments.empty(2).merged(Moments.empty(2)).count == 0
    assert Moments.empty(2).variances.tolist() == [1.0, 1.0]
    one = merged([np.array([[1.0, 2.0, 3.0]])])
    assert (
        one.merged(Moments.empty(3)).plain() == Moments.empty(3).merged(one).plain() == (1, [1.0, 2.0, 3.0], [0.0] * 3)
    )


def test_what_is_counted_is_read_again() -> None:
    total = merged([RNG.normal(size=(50, 3))])
    assert Moments.parse(total.plain(), 3).plain() == total.plain()
    through_json = msgspec.json.decode(msgspec.json.encode({"moments": total.plain()}))
    found = Moments.from_checkpoint(through_json, 3)
    assert found is not None and found.plain() == total.plain()


@pytest.mark.parametrize(
    "plain",
    [
        (0, [0.0, 0.0], [0.0, 0.0]),
        (-5, [0.0, 0.0], [0.0, 0.0]),
        (5, [0.0], [0.0, 0.0]),
        (5, [0.0, 0.0], [0.0]),
        (5, [], []),
        (5, [math.nan, 0.0], [0.0, 0.0]),
        (5, [math.inf, 0.0], [0.0, 0.0]),
        (5, [2 * MAX_MEAN, 0.0], [0.0, 0.0]),
        (5, [0.0, 0.0], [0.0, -1e-300]),
        (5, [0.0, 0.0], [0.0, math.nan]),
        (5, [0.0, 0.0], [math.inf, 0.0]),
        (5, [0.0, 0.0], [1e300, 0.0]),
        (5, [MAX_MEAN, 0.0], [5 * MAX_MEAN**2, 0.0]),
    ],
)
def test_what_cannot_be_is_refused(plain: Any) -> None:
    with pytest.raises(CodecError, match=r"moments (of|that)"):
        Moments.parse(plain, 2)
    with pytest.raises(ConfigurationError, match="running statistics do not fit"):
        Moments.from_checkpoint({"moments": plain}, 2)


@pytest.mark.parametrize("state", [{"moments": "x"}, {"moments": [1, 2, 3]}, {"moments": [1, ["a"], [0.0]]}])
def test_a_checkpoint_of_something_else(state: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="running statistics do not fit"):
        Moments.from_checkpoint(state, 1)


def test_a_checkpoint_without() -> None:
    assert Moments.from_checkpoint({}, 2) is None
    assert Moments.from_checkpoint({"moments": None}, 2) is None
    assert Moments.from_checkpoint({"moments": "of a run that counts nothing"}, 0) is None


def test_those_of_a_gradient_are_of_its_steps() -> None:
    one, two = (Moments.from_rows(RNG.normal(size=(count, 2))) for count in (7, 5))
    both = Moments.merge_all([one.plain(), two.plain()], 2, rollouts=2, steps=12)
    assert both.plain() == one.merged(two).plain()
    assert Moments.merge_all([], 0, rollouts=2, steps=12).count == 0
    assert Moments.merge_all([], 2, rollouts=1, steps=0).count == 0
    for plains, size, rollouts, steps in (
        ([one.plain(), two.plain()], 2, 2, 13),
        ([one.plain(), two.plain()], 2, 1, 12),
        ([one.plain()], 0, 1, 7),
        ([], 2, 1, 7),
    ):
        with pytest.raises(CodecError, match="moments of"):
            Moments.merge_all(plains, size, rollouts=rollouts, steps=steps)


@pytest.mark.parametrize("others", [1, 10**12])
def test_the_largest_that_are_read_can_be_read_once_they_are_merged(others: int) -> None:
    far, near = (others, [-MAX_MEAN], [0.0]), (1, [0.7 * MAX_MEAN], [0.5 * MAX_MEAN**2])
    total = Moments.merge_all([far, near, (3, [MAX_MEAN], [0.0])], 1, rollouts=3, steps=others + 4)
    assert Moments.from_checkpoint({"moments": total.plain()}, 1) is not None


@given(st.lists(st.tuples(st.integers(-(2**63), 2**64), st.lists(ANYTHING), st.lists(ANYTHING)), max_size=3))
def test_whatever_a_peer_says_the_statistics_stay_numbers(plains: list[Plain]) -> None:
    total = Moments.empty(1)
    for plain in plains:
        try:
            total = total.merged(Moments.parse(plain, 1))
        except CodecError:
            continue
    assert total.usable
    if total.count:
        Moments.from_checkpoint({"moments": total.plain()}, 1)
    assert (total.variances >= 0).all()
    assert np.isfinite(Normalization(1, rewards=False).extras(total)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, np.float32(3e38)])
def test_what_an_environment_gives_may_be_unusable(bad: float) -> None:
    values = np.ones((4, 2), np.float32)
    assert Moments.from_rows(values).usable
    values[1, 1] = bad
    assert not Moments.from_rows(values).usable
