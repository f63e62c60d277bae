"""Where the statistics are, and what rewards are multiplied by."""

import numpy as np
import pytest

from common.rl.moments import Moments
from common.rl.normalization import Normalization

VALUES = np.random.default_rng(1).normal(size=(500, 5)) * [1, 20, 0, 3, 7] + [0, 5, 1e4, -2, 100]


@pytest.mark.parametrize(
    ("observations", "rewards", "size"), [(True, False, 8), (False, True, 1), (True, True, 9), (False, False, 0)]
)
def test_what_is_counted_and_where_it_is(observations: bool, rewards: bool, size: int) -> None:
    layout = Normalization(4 * observations, rewards)
    extras = layout.extras()
    assert (extras.size, extras.dtype) == (size, np.float32)
    assert layout.reward_scale(extras) == 1.0
    counted = Moments.from_rows(VALUES[:, 5 - layout.counted :] if rewards else VALUES[:, : layout.counted])
    extras = layout.extras(counted)
    assert layout.reward_scale(extras) == pytest.approx(1 / VALUES[:, 4].std() if rewards else 1.0)
    if observations:
        np.testing.assert_allclose(extras[:4], counted.means[:4], rtol=1e-6)
        expected = 1 / np.sqrt(counted.variances[:4] + 1e-8)
        expected[2] = 1.0  # it has never varied
        np.testing.assert_allclose(extras[4:8], expected, rtol=1e-6)


def test_the_first_reward_after_many_zeros_is_learnt_as_it_is() -> None:
    layout = Normalization(0, True)
    zeros = Moments.from_rows(np.zeros((1000, 1)))
    assert layout.reward_scale(layout.extras(zeros)) == 1.0
    rows = np.zeros((1000, 1))
    rows[0] = 1.0
    assert layout.reward_scale(layout.extras(Moments.from_rows(rows))) == pytest.approx(31.6, rel=0.01)
