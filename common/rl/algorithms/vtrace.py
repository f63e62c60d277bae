"""V-trace: returns corrected for the lag between the policy that acted and the one that learns."""

from typing import NamedTuple

from common.rl import arrays
from common.rl.algorithms.returns import assert_time_major
from common.rl.arrays import Array


class VTrace(NamedTuple):
    """Both arrays are (T, B)."""

    targets: Array
    """v_s: targets for the value of the observation before each step."""
    advantages: Array
    """Weights of the policy gradient, the clipped ratio included."""


def vtrace(
    r_t: Array,
    discount_t: Array,
    values: Array,
    ratio_tm1: Array,
    valid: Array,
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
    on = arrays.of(values)
    rho = on.kept(valid, on.clipped(ratio_tm1, None, rho_clip))
    c = on.kept(valid, on.clipped(ratio_tm1, None, c_clip) * lambda_)
    corrections = on.accumulated(rho * (r_t + discount_t * v_t - v_tm1), discount_t * c)
    # target_{t+1} = v_t + the correction of the next step; beyond the last step there is none.
    q_t = on.copy(v_t)
    q_t[:-1] += lambda_ * corrections[1:]
    return VTrace(v_tm1 + corrections, rho * (r_t + discount_t * q_t - v_tm1))
