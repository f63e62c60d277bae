"""Every kind of action has its distribution."""

import numpy as np

from common.rl.action_spec import ActionSpec, discrete
from common.rl.distributions.categorical import Categorical, MultiCategorical
from common.rl.distributions.gaussian import Gaussian
from common.rl.distributions.registry import distribution


def test_discrete_actions_are_categorical() -> None:
    outputs = np.array([[0.0, 3.0, 1.0]], np.float32)
    chosen = distribution(discrete(3), outputs)
    assert isinstance(chosen, Categorical)
    assert chosen.mode().tolist() == [1]


def test_several_choices_and_numbers() -> None:
    outputs = np.array([[0.0, 3.0, 1.0, 2.0]], np.float32)
    several = distribution(ActionSpec("multi-discrete", (2, 2), (2,)), outputs)
    assert isinstance(several, MultiCategorical)
    assert several.mode().tolist() == [[1, 1]]
    numbers = distribution(ActionSpec("box", shape=(2,), squashed=(False, False)), outputs)
    assert isinstance(numbers, Gaussian)
    assert numbers.mode().tolist() == [[0.0, 3.0]]
