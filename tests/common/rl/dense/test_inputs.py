"""What the first layer is given."""

from __future__ import annotations

import numpy as np

from common.rl.action_spec import discrete
from common.rl.dense.inputs import Inputs
from common.rl.dense.layout import DenseLayout, TrunkLayout
from common.rl.observation_spec import ObservationSpec

BOX = ObservationSpec((2, 2), "box", 4)


def inputs_of(spec: ObservationSpec, *, scale: float = 1.0, extras: list[float] | None = None) -> Inputs:
    layout = DenseLayout(TrunkLayout(spec, (3,), "tanh", scale), discrete(2), True, extras is not None)
    return Inputs(layout, np.array(extras or [], np.float32))


def test_a_box_is_flattened_in_place() -> None:
    inputs, x = inputs_of(BOX), np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    assert not inputs.copies
    seen = inputs.encode(x, np.empty((0, 4), np.float32))
    assert seen.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert np.shares_memory(seen, x)


def test_it_is_normalised_clipped_and_then_scaled_and_the_observations_stay() -> None:
    inputs = inputs_of(BOX, scale=0.5, extras=[1, 1, 0, 0, 2, 2, 1, 1])
    x = np.array([[[0, 1], [50, -50]]], np.float32)
    assert inputs.copies
    assert inputs.encode(x, np.empty((1, 4), np.float32)).tolist() == [[-1, 0, 5, -5]]
    assert x.max() == 50


def test_pixels_are_scaled_to_one_and_by_nothing_else() -> None:
    inputs = inputs_of(ObservationSpec((2, 2), "pixels", 4), scale=7.0)
    x = np.array([[[0, 255], [51, 102]]], np.uint8)
    np.testing.assert_allclose(inputs.encode(x, np.empty((1, 4), np.float32)), [[0, 1, 0.2, 0.4]], rtol=1e-6)


def test_discrete_is_one_hot() -> None:
    inputs, memory = inputs_of(ObservationSpec((), "discrete", 4)), np.full((2, 4), np.nan, np.float32)
    assert inputs.encode(np.array([2, 0]), memory).tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]
    assert inputs.encode(np.array([1, 0]), memory).tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
