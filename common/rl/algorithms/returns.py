"""Returns over a rollout, with and without importance correction. Arrays are (T, B), time first, unless said otherwise.

Names follow rlax: x_tm1 belongs to the state a step started from, x_t to what the step led to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.rl.algorithms.losses import Booleans, Floats


def lambda_returns(r_t: Floats, discount_t: Floats, values: Floats, valid: Booleans, lambda_: float) -> Floats:
    """Return the lambda-returns G_t = r_t + discount_t * ((1 - lambda) v_t + lambda G_{t+1}).

    With lambda 1 this is A3C's n-step return, bootstrapped with the last v_t (Mnih et al. 2016,
    https://arxiv.org/abs/1602.01783). G - v_tm1 is the generalised advantage estimate (Schulman et al. 2015,
    https://arxiv.org/abs/1506.02438).

    Args:
        r_t: rewards.
        discount_t: discounts, 0 where the episode terminated.
        values: (T + 1, B) values of the observations before each step and after the last.
        valid: False where the step was a dummy: its return is v_tm1.
        lambda_: in 0..1.
    """
    _assert_time_major(values, r_t, discount_t, valid)
    v_tm1, v_t = values[:-1], values[1:]
    errors = np.where(valid, r_t + discount_t * v_t - v_tm1, np.float32(0))
    return v_tm1 + accumulate(errors, np.where(valid, discount_t * np.float32(lambda_), np.float32(0)))


def vtrace(
    r_t: Floats,
    discount_t: Floats,
    values: Floats,
    ratio_tm1: Floats,
    valid: Booleans,
    lambda_: float,
    rho_clip: float,
    c_clip: float,
) -> tuple[Floats, Floats]:
    """Return V-trace's targets for the value before each step, and advantages, the clipped ratio included.

    See Espeholt et al. 2018, https://arxiv.org/abs/1802.01561, section 4.1 and remark 2. The advantages bootstrap with
    lambda * target_{t+1} + (1 - lambda) * v_t, so that with ratios of 1 they are exactly GAE(lambda). The arguments are
    those of `lambda_returns`, and:

    Args:
        ratio_tm1: pi(a) / mu(a) of the action, not yet clipped.
        valid: False where the step was a dummy: its target is v_tm1 and its advantage 0.
        rho_clip: largest ratio in an error; decides which policy's value is learnt.
        c_clip: largest ratio in a trace; decides how far corrections reach.
    """
    _assert_time_major(values, r_t, discount_t, ratio_tm1, valid)
    v_tm1, v_t = values[:-1], values[1:]
    rho = np.where(valid, np.minimum(ratio_tm1, np.float32(rho_clip)), np.float32(0))
    c = np.where(valid, np.minimum(ratio_tm1, np.float32(c_clip)) * np.float32(lambda_), np.float32(0))
    corrections = accumulate(rho * (r_t + discount_t * v_t - v_tm1), discount_t * c)
    # target_{t+1} = v_t + the correction of the next step; beyond the last step there is none.
    q_t = v_t.copy()
    q_t[:-1] += np.float32(lambda_) * corrections[1:]
    return v_tm1 + corrections, rho * (r_t + discount_t * q_t - v_tm1)


def accumulate(x: Floats, decay: Floats) -> Floats:
    """Return y (T, B) with y_t = x_t + decay_t * y_{t+1}, and y_T = 0 beyond the end."""
    y = x.copy()
    for t in range(len(y) - 2, -1, -1):
        y[t] += decay[t] * y[t + 1]
    return y


def _assert_time_major(values: Floats, *arrays: NDArray[Any]) -> None:
    """Assert that `arrays` have one shape (T, B), and `values` (T + 1, B)."""
    shapes = [array.shape for array in arrays]
    assert all(shape == (len(values) - 1, *values.shape[1:]) for shape in shapes), (values.shape, shapes)
