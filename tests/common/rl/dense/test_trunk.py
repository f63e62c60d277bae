"""One trunk, its gradient against differences of its outputs; test_network.py holds it to torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.rl.dense.layout import TrunkLayout
from common.rl.dense.trunk import Accumulator, Trunk
from common.rl.observation_spec import ObservationSpec


def empty(layout: TrunkLayout) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, units, inputs in layout.layers():
        made |= {f"{name}_weight": np.zeros((units, inputs), np.float32), f"{name}_bias": np.zeros(units, np.float32)}
    return made


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_gradient_is_that_of_differences(activation: Any) -> None:
    rng = np.random.default_rng(4)
    layout = TrunkLayout(ObservationSpec((3,), "box", 3), (5, 2), activation, 1.0)
    parameters, gradients = empty(layout), empty(layout)
    for part in parameters.values():
        part[...] = rng.normal(size=part.shape)
    trunk = Trunk(layout, parameters, gradients)
    x, slope = rng.normal(size=(6, 3)).astype(np.float32), rng.normal(size=(6, 2)).astype(np.float32)
    activations = [np.empty((6, units), np.float32) for units in layout.hidden]

    def loss() -> float:
        return float((trunk.forward(x, activations).astype(np.float64) * slope).sum())

    loss()
    trunk.backward(x, activations, [np.empty((6, 5), np.float32), slope.copy()], Accumulator())
    for name, part in parameters.items():
        for index in np.ndindex(part.shape):
            before, step = part[index], np.float32(1e-2)
            part[index] = before + step
            above = loss()
            part[index] = before - step
            difference = (above - loss()) / (2 * step)
            part[index] = before
            assert gradients[name][index] == pytest.approx(difference, rel=0.02, abs=0.02)


def test_the_first_chunk_takes_the_place_of_what_was_there_and_others_add_up() -> None:
    by_weight, by_bias, by_row = (np.full(shape, np.nan, np.float32) for shape in ((1, 2), 1, 1))
    delta, inputs = np.array([[1], [2]], np.float32), np.array([[1, 0], [3, 5]], np.float32)
    add = Accumulator()
    for times in (1, 2):
        add(delta, inputs, by_weight, by_bias)
        add.rows(delta, by_row)
        assert by_weight.tolist() == [[7 * times, 10 * times]]
        assert by_bias.tolist() == by_row.tolist() == [3 * times]
        add.first = False
