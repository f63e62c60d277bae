"""The arrays of the host; those of a device are held to the same in networks/test_tensors.py."""

from __future__ import annotations

import numpy as np
import pytest

from common.rl import arrays

X = np.array([[0.5, -1.0, 2.0], [3.0, 3.0, -4.0]], np.float32)
ON = arrays.of(X)


def test_accumulated_by_hand_and_its_input_is_left() -> None:
    x = np.ones((3, 1), np.float32)
    assert ON.accumulated(x, np.full((3, 1), 0.5, np.float32)).ravel().tolist() == [1.75, 1.5, 1.0]
    assert x.ravel().tolist() == [1, 1, 1]


def test_accumulated_of_one_environment_is_that_column_of_several_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    x, decay = rng.normal(size=(2, 50, 3)).astype(np.float32)
    whole = ON.accumulated(x, decay)
    for column in range(3):
        alone = ON.accumulated(x[:, column, None], decay[:, column, None])
        assert alone.dtype == np.float32
        assert alone.tobytes() == np.ascontiguousarray(whole[:, column, None]).tobytes()


def test_rows_and_columns() -> None:
    chosen = np.array([2, 0])
    assert ON.pick(X, chosen).tolist() == [2.0, 3.0]
    assert ON.largest(X).tolist() == [2.0, 3.0]
    assert ON.columns(X, [0, 2]).tolist() == [[0.5, 2.0], [3.0, -4.0]]
    added = X.copy()
    ON.add_at(added, chosen, np.array([1.0, 10.0], np.float32))
    assert added.tolist() == [[0.5, -1.0, 3.0], [13.0, 3.0, -4.0]]


@pytest.mark.parametrize(("low", "high", "expected"), [(None, 1.0, [0.5, -1, 1]), (-0.5, 1.0, [0.5, -0.5, 1])])
def test_clipped(low: float | None, high: float, expected: list[float]) -> None:
    assert ON.clipped(X, low, high)[0].tolist() == expected


def test_what_is_not_kept_is_0_and_all_stays_float32() -> None:
    where = X > 0
    assert ON.kept(where, X).tolist() == [[0.5, 0, 2], [3, 3, 0]]
    assert ON.kept(where, 0.25)[1].tolist() == [0.25, 0.25, 0]
    assert {one.dtype for one in (ON.kept(where, X), ON.kept(where, 0.25), ON.softplus(X))} == {np.dtype(np.float32)}


def test_mean_weights() -> None:
    assert ON.mean_weights(np.array([[True, False], [True, True]])).tolist() == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])
    assert ON.mean_weights(np.zeros((1, 2), np.bool_)).tolist() == [0, 0]


def test_log_softmax_adds_up_to_1() -> None:
    np.testing.assert_allclose(np.exp(ON.log_softmax(X)).sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(ON.softplus(X), np.log1p(np.exp(X)), rtol=1e-6)
