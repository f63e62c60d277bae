"""Where policy, log standard deviations and value are among the outputs; test_network.py holds them to torch's."""

from __future__ import annotations

import numpy as np

from common.rl.action_spec import ActionSpec
from common.rl.dense.heads import Heads
from common.rl.dense.layout import DenseLayout, TrunkLayout
from common.rl.dense.trunk import Accumulator
from common.rl.observation_spec import ObservationSpec

CONTINUOUS = ActionSpec("box", (), (2,), (False, False), "parameter")


def test_log_standard_deviations_stand_between_the_means_and_the_value() -> None:
    layout = DenseLayout(TrunkLayout(ObservationSpec((1,), "box", 1), (1,), "tanh", 1.0), CONTINUOUS, False, False)
    parameters = {
        "head_weight": np.array([[1], [2], [3]], np.float32),
        "head_bias": np.array([0, 0, 100], np.float32),
        "log_std": np.array([-1, -2], np.float32),
    }
    gradients = {name: np.zeros_like(part) for name, part in parameters.items()}
    heads = Heads(layout, parameters, gradients)
    features = [np.array([[1], [10]], np.float32), np.array([[2], [3]], np.float32)]
    outputs = np.empty((2, 5), np.float32)
    heads.forward(features, outputs)
    assert outputs.tolist() == [[1, 2, -1, -2, 106], [10, 20, -1, -2, 109]]
    by_features = [np.empty((2, 1), np.float32) for _ in range(2)]
    derivative = np.array([[1, 0, 5, 6, 0], [0, 1, 5, 0, 1]], np.float32)
    heads.backward(derivative, features, by_features, Accumulator())
    assert gradients["log_std"].tolist() == [10, 6]
    assert gradients["head_weight"].tolist() == [[1], [10], [3]]
    assert gradients["head_bias"].tolist() == [1, 1, 1]
    assert [part.tolist() for part in by_features] == [[[1], [2]], [[0], [3]]]
