from __future__ import annotations

import numpy as np
import torch

from common.rl.moments import Moments
from common.rl.networks.normalization import Normalization
from common.settings.sections import Optimizer
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.running_stats import RunningStats
from learner.parameters.target_network import TargetNetwork
from learner.parameters.weights import Weights

SIZE = 5


def weights_of(extras: torch.Tensor, *, rewards: bool = False, target: TargetNetwork | None = None) -> Weights:
    vector = torch.ones(SIZE)
    optimizer = make_optimizer(Optimizer(kind="sgd", learning_rate=0.5), vector, 0)
    return Weights(optimizer, extras, RunningStats(Normalization(0, rewards), extras[: int(rewards)]), target)


def test_weights_that_are_no_numbers_are_seen() -> None:
    weights = weights_of(torch.zeros(0))
    assert weights.finite
    weights.vector[3] = torch.nan
    assert not weights.finite


def test_running_statistics_change_between_two_versions_only() -> None:
    weights = weights_of(torch.zeros(1), rewards=True)
    assert weights.moments is None
    weights.running.merge(Moments.from_rows(np.array([[0.0], [4.0]])))
    weights.step(torch.ones(SIZE), scale=1.0, frames=0)
    assert weights.extras.tolist() == [1.0], "there may be more optimizer steps to this version"
    weights.end_version()
    assert weights.extras.tolist() == [0.5]
    assert weights.moments == (2, [2.0], [8.0])


def test_the_target_network_follows_the_frames_and_travels_behind_the_weights() -> None:
    clock, copy = torch.zeros(1), torch.ones(SIZE)
    weights = weights_of(clock, target=TargetNetwork(copy, 100, clock, 0))
    seen = []
    for frames in (60, 90, 123_457):
        weights.step(torch.ones(SIZE), scale=1.0, frames=frames)
        vector, target = weights.vectors()
        seen.append((float(vector[0]), float(target[-1]), float(clock)))
    assert seen == [(0.5, 1.0, 60), (0.0, 1.0, 90), (-0.5, -0.5, 123_457)]
    assert torch.equal(weights.state()["target"], copy)
