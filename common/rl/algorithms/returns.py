"""Returns over a rollout, without importance correction. Arrays are (T, B), time first, unless said otherwise.

Names follow rlax: x_tm1 belongs to the state that a step started from, x_t to the state or reward it led to.
"""

from common.rl import arrays
from common.rl.arrays import Array


def lambda_returns(r_t: Array, discount_t: Array, values: Array, valid: Array, lambda_: float) -> Array:
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

    Returns:
        (T, B) returns.
    """
    assert_time_major(values, r_t, discount_t, valid)
    v_tm1, v_t = values[:-1], values[1:]
    on = arrays.of(values)
    errors = on.kept(valid, r_t + discount_t * v_t - v_tm1)
    return v_tm1 + on.accumulated(errors, on.kept(valid, discount_t * lambda_))


def assert_time_major(values: Array, *others: Array) -> None:
    """Assert that `others` have one shape (T, B), and `values` (T + 1, B)."""
    shapes = [array.shape for array in others]
    assert all(shape == (len(values) - 1, *values.shape[1:]) for shape in shapes), (values.shape, shapes)
