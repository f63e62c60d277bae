"""V-trace: returns corrected for the lag between the policy that acted and the one that learns."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.rl.algorithms.returns import accumulate, assert_time_major

Floats = NDArray[np.float32]


class VTrace(NamedTuple):
    """Both (T, B)."""

    targets: Floats
    """v_s: targets for the value of the observation before each step."""
    advantages: Floats
    """Weights of the policy gradient, the clipped ratio included."""


def vtrace(
    r_t: Floats,
    discount_t: Floats,
    values: Floats,
    ratio_tm1: Floats,
    valid: NDArray[np.bool_],
    lambda_: float,
    rho_clip: float,
    c_clip: float,
) -> VTrace:
    """Return V-trace's targets and policy-gradient advantages; arrays are (T, B) unless said otherwise.

    See Espeholt et al. 2018, https://arxiv.org/abs/1802.01561, section 4.1 and remark 2. The advantages bootstrap with
    lambda * target_{t+1} + (1 - lambda) * v_t, so that with ratios of 1 they are exactly GAE(lambda).

    Args:
        r_t: rewards.
        discount_t: discounts, 0 where the episode terminated.
        values: (T + 1, B) values of the observations before each step and after the last.
        ratio_tm1: pi(a) / mu(a) of the action, not yet clipped.
        valid: False where the step was a dummy: its target is v_tm1 and its advantage 0.
        lambda_: in 0..1.
        rho_clip: largest ratio in an error; decides which policy's value is learnt.
        c_clip: largest ratio in a trace; decides how far corrections reach.
    """
    assert_time_major(values, r_t, discount_t, ratio_tm1, valid)
    v_tm1, v_t = values[:-1], values[1:]
    rho = np.where(valid, np.minimum(ratio_tm1, np.float32(rho_clip)), np.float32(0))
    c = np.where(valid, np.minimum(ratio_tm1, np.float32(c_clip)) * np.float32(lambda_), np.float32(0))
    corrections = accumulate(rho * (r_t + discount_t * v_t - v_tm1), discount_t * c)
    # target_{t+1} = v_t + the correction of the next step; beyond the last step there is none.
    q_t = v_t.copy()
    q_t[:-1] += np.float32(lambda_) * corrections[1:]
    return VTrace(v_tm1 + corrections, rho * (r_t + discount_t * q_t - v_tm1))
