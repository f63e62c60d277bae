from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deploy.runs.curves import Curve, curve, mean_curve


def of(x: list[float], y: list[float]) -> Curve:
    return Curve(np.array(x), np.array(y))


def test_the_mean_is_taken_where_all_are() -> None:
    found = mean_curve([of([0, 10], [0, 10]), of([5, 20], [0, 30]), of([], [])])
    assert found is not None
    assert (found.x[0], found.x[-1]) == (5, 10)
    np.testing.assert_allclose([found.mean[0], found.mean[-1]], [2.5, 10])
    np.testing.assert_allclose(found.high[0] - found.mean[0], 12.706205 * np.std([0, 5], ddof=1) / np.sqrt(2))
    np.testing.assert_allclose(found.mean - found.low, found.high - found.mean)


@pytest.mark.parametrize("several", [[], [of([0, 1], [0, 1])], [of([0, 1], [0, 1]), of([2, 3], [0, 1])]])
def test_no_mean_of_one_or_of_curves_that_do_not_meet(several: list[Curve]) -> None:
    assert mean_curve(several) is None


def test_curves_of_training_and_of_evaluations(tmp_path: Path) -> None:
    evaluation = {"evaluation_frames": 5, "evaluation_low": 1, "evaluation_high": 9}
    rows = [
        {"frames": 0, "seconds": 0.0, "mean_return": None},
        {"frames": 10, "seconds": 1.0, "mean_return": 3.0},
        {
            "frames": 20,
            "seconds": 2.0,
            "mean_return": 4.0,
            "evaluation_frames": 5,
            "evaluation_return": 6,
            **evaluation,
        },
        {
            "frames": 30,
            "seconds": 3.0,
            "mean_return": 5.0,
            "evaluation_frames": 5,
            "evaluation_return": 7,
            **evaluation,
        },
    ]
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    training = curve(file, "frames", "training")
    assert (training.x.tolist(), training.y.tolist()) == ([10, 20, 30], [3, 4, 5])
    assert curve(file, "seconds", "training").x.tolist() == [1, 2, 3]
    evaluated = curve(file, "frames", "evaluation")
    assert (evaluated.x.tolist(), evaluated.y.tolist()) == ([5], [7])
    assert curve(tmp_path / "nothing", "frames", "training").x.size == 0
