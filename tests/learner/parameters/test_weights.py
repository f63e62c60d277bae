from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from common.errors import ConfigurationError
from common.rl.moments import Moments
from common.rl.normalization import Normalization
from common.rl.rewards import UNCHANGED
from common.settings.sections import Optimizer
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.weights import TargetNetwork, Weights

SIZE = 5


VALUES = np.random.default_rng(2).normal(size=(300, 3)) * [1, 5, 9] + [3, 0, -4]
LAYOUT = Normalization(2, rewards=True)


def weights_of(extras: np.ndarray, normalization: Normalization = UNCHANGED, **options: Any) -> Weights:
    optimizer = make_optimizer(Optimizer(kind="sgd", learning_rate=0.5), torch.ones(SIZE), 0)
    return Weights(optimizer, extras, normalization, **options)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_no_numbers_are_seen(bad: float) -> None:
    weights = weights_of(np.zeros(0, np.float32))
    weights.vector[:2] = torch.tensor([-1.0, 1.0]) * torch.finfo(torch.float32).max
    assert weights.finite and weights.may_be_saved
    weights.vector[3] = bad
    assert not weights.finite
    assert not weights.may_be_saved


def test_the_checksum_is_of_weights_and_extras() -> None:
    weights = weights_of(np.zeros(2, np.float32))
    seen = {(weights.checksum, weights.digest)}
    for tensor in (weights.vector, weights.extras):
        tensor[1] += 1
        seen.add((weights.checksum, weights.digest))
        assert (weights.checksum, weights.digest) in seen
    assert len(seen) == len({checksum for checksum, _ in seen}) == len({digest for _, digest in seen}) == 3


def test_running_statistics_change_between_two_versions_only() -> None:
    weights = weights_of(np.zeros(1, np.float32), Normalization(0, rewards=True))
    assert weights.moments is None
    weights.merge(Moments.from_rows(np.array([[0.0], [4.0]])))
    weights.step(torch.ones(SIZE), scale=1.0, frames=0)
    assert weights.extras.tolist() == [1.0], "there may be more optimizer steps to this version"
    weights.end_version()
    assert weights.extras.tolist() == [0.5]
    assert weights.moments == (2, [2.0], [8.0])


def test_extras_are_of_all_that_was_seen_and_those_behind_are_left_alone() -> None:
    weights = weights_of(np.full(6, 7, np.float32), LAYOUT)
    assert weights.extras.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 7.0]
    for part in np.split(VALUES, [10, 11, 200]):
        weights.merge(Moments.from_rows(part))
    weights.end_version()
    np.testing.assert_allclose(weights.extras, [*VALUES.mean(axis=0)[:2], *(1 / VALUES.std(axis=0)), 7.0], rtol=1e-5)


def test_saved_moments_go_on() -> None:
    whole, first = weights_of(np.zeros(5, np.float32), LAYOUT), weights_of(np.zeros(5, np.float32), LAYOUT)
    for weights in (whole, first):
        weights.merge(Moments.from_rows(VALUES[:100]))
        weights.end_version()
    saved = Moments.from_checkpoint({"moments": first.moments}, LAYOUT.counted)
    resumed = weights_of(np.zeros(5, np.float32), LAYOUT)
    resumed.restore(np.ones(SIZE, np.float32), {}, saved)
    np.testing.assert_allclose(resumed.extras[:2], VALUES[:100, :2].mean(axis=0), rtol=1e-5)
    for weights in (whole, resumed):
        weights.merge(Moments.from_rows(VALUES[100:]))
        assert weights.moments == first.moments, "a checkpoint now is of the version before"
        weights.end_version()
    assert resumed.moments == whole.moments


def test_the_target_network_follows_the_frames_and_travels_behind_the_weights() -> None:
    clock, copy = np.zeros(1, np.float32), torch.ones(SIZE)
    weights = weights_of(clock, target=TargetNetwork(copy, 100, clock, 0))
    seen = []
    for frames in (60, 90, 123_457):
        weights.step(torch.ones(SIZE), scale=1.0, frames=frames)
        vector, target = weights.vectors()
        seen.append((float(vector[0]), float(target[-1]), float(clock[0])))
    assert seen == [(0.5, 1.0, 60), (0.0, 1.0, 90), (-0.5, -0.5, 123_457)]
    assert torch.equal(weights.state()["target"], copy)


def test_the_target_network_is_renewed_with_the_first_step_beyond_each_multiple() -> None:
    clock, vector = np.zeros(1, np.float32), torch.zeros(3)
    target = TargetNetwork(vector, 100, clock, 0)
    renewed = []
    for step, frames in enumerate((40, 90, 120, 130, 190, 205, 430, 440, 499), start=1):
        target.stepped(torch.full((3,), float(step)), frames)
        assert clock.item() == frames
        renewed.append(int(vector[0]))
    assert renewed == [0, 0, 3, 3, 3, 6, 7, 7, 7]


def test_a_resumed_run_keeps_to_the_multiples() -> None:
    clock, vector = np.zeros(1, np.float32), torch.full((3,), 5.0)
    target = TargetNetwork(vector, 100, clock, 170)
    assert clock.item() == 170, "actors explore as much as before"
    target.stepped(torch.ones(3), 190)
    assert vector.tolist() == [5.0] * 3
    target.stepped(torch.ones(3), 200)
    assert vector.tolist() == [1.0] * 3


def test_what_a_checkpoint_keeps_is_put_in_place_or_nothing_is() -> None:
    clock, copy = np.zeros(1, np.float32), torch.ones(SIZE)
    weights = weights_of(np.zeros(5, np.float32), LAYOUT, target=TargetNetwork(copy, 100, clock, 0))
    weights.merge(Moments.from_rows(VALUES))
    weights.end_version()
    vector, seen = np.arange(SIZE, dtype=np.float32), Moments.from_rows(VALUES[:9])
    before = weights.checksum
    for wrong, state in ((vector[1:], {"target": vector}), (vector, {}), (vector, {"target": vector, "mean": vector})):
        with pytest.raises(ConfigurationError):
            weights.restore(wrong, state, seen)
        assert (weights.checksum, copy.tolist()) == (before, [1.0] * SIZE)
    weights.restore(vector, {"target": vector + 1}, seen)
    assert (weights.vector.tolist(), copy.tolist()) == (vector.tolist(), (vector + 1).tolist())
    assert weights.moments == seen.plain()
    weights.restore(vector, {"target": vector}, None)
    assert weights.moments is None
    assert weights.extras.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
