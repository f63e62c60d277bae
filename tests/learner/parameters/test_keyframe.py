"""What actors make of deltas is the weights, however many there were; and when another keyframe is due."""

from __future__ import annotations

import numpy as np
import pytest

from common.wire.bodies.delta import DeltaFormat
from common.wire.bodies.weights import WeightsFormat
from learner.parameters.keyframe import Keyframe

SIZE = 1000
NONE = np.zeros(0, np.float32)


def random(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SIZE, np.float32)


def peak(vector: np.ndarray) -> float:
    return float(np.abs(vector).max())


@pytest.mark.parametrize("form", ["fp32", "fp16"])
def test_errors_do_not_add_up(form: str) -> None:
    weights = random(0)
    keyframe = Keyframe(form, 5, [weights.copy()], NONE)
    held, out = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
    WeightsFormat(form, SIZE).unpack(keyframe.body, [held], NONE)
    for step in range(1, 200):
        weights += np.float32(0.001) * random(step)
        body, _ = keyframe.delta([weights], NONE)
        DeltaFormat(SIZE).unpack(body, 5, held, [out], NONE)
        assert peak(out - weights) <= peak(weights - held) / 254 * 1.001 + 1e-6


def test_a_delta_of_halves_makes_up_for_their_rounding() -> None:
    weights, held, out = random(0), np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
    keyframe = Keyframe("fp16", 5, [weights], NONE)
    WeightsFormat("fp16", SIZE).unpack(keyframe.body, [held], NONE)
    body, due = keyframe.delta([weights], NONE)
    DeltaFormat(SIZE).unpack(body, 5, held, [out], NONE)
    assert peak(out - weights) < peak(held - weights) / 100
    assert not due


def test_another_is_due_when_a_delta_may_lose_more_than_halves_do() -> None:
    weights = random(0)
    keyframe = Keyframe("fp32", 5, [weights], NONE)
    far = 254 * 2**-11 * peak(weights)
    for factor, due in ((0.99, False), (1.01, True)):
        moved = weights.copy()
        moved[3] += factor * far
        assert keyframe.delta([moved], NONE)[1] is due


def test_a_delta_is_smaller_than_halves() -> None:
    weights = random(0)
    body, _ = Keyframe("fp16", 5, [weights], NONE).delta([weights + np.float32(0.01) * random(1)], NONE)
    assert len(body) < 0.6 * 2 * SIZE
