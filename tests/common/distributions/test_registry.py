"""Every kind of action has its distribution."""

import numpy as np

from common.distributions.categorical import Categorical
from common.distributions.registry import distribution
from common.networks.action import discrete


def test_discrete_actions_are_categorical() -> None:
    outputs = np.array([[0.0, 3.0, 1.0]], np.float32)
    chosen = distribution(discrete(3), outputs)
    assert isinstance(chosen, Categorical)
    assert chosen.mode().tolist() == [1]
