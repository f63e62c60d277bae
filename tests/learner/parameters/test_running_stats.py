"""Statistics over a run, and over its epochs."""

from __future__ import annotations

import numpy as np
import torch

from common.rl.moments import Moments
from common.rl.networks.normalization import Normalization
from learner.parameters.running_stats import RunningStats

VALUES = np.random.default_rng(2).normal(size=(300, 3)) * [1, 5, 9] + [3, 0, -4]
LAYOUT = Normalization(2, rewards=True)


def test_extras_change_with_a_refresh_and_are_of_all_that_was_seen() -> None:
    extras = torch.zeros(5)
    running = RunningStats(LAYOUT, extras)
    assert extras.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert running.saved() is None
    for part in np.split(VALUES, [10, 11, 200]):
        running.merge(Moments.from_rows(part))
    assert extras.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0], "a version's stay as they are"
    running.refresh()
    np.testing.assert_allclose(extras, [*VALUES.mean(axis=0)[:2], *(1 / VALUES.std(axis=0))], rtol=1e-5)


def test_what_is_saved_goes_on() -> None:
    whole, extras = RunningStats(LAYOUT, torch.zeros(5)), torch.zeros(5)
    first = RunningStats(LAYOUT, torch.zeros(5))
    for running in (whole, first):
        running.merge(Moments.from_rows(VALUES[:100]))
    saved = Moments.from_checkpoint({"moments": first.saved()}, LAYOUT.counted)
    resumed = RunningStats(LAYOUT, extras, saved)
    np.testing.assert_allclose(extras[:2], VALUES[:100, :2].mean(axis=0), rtol=1e-5)
    for running in (whole, resumed):
        running.merge(Moments.from_rows(VALUES[100:]))
    assert resumed.saved() == whole.saved()
