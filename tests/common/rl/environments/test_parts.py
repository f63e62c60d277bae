"""Vectors of observations made of parts, against gymnasium's own flatten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.spaces.utils import flatten
from gymnasium.vector.utils import concatenate, create_empty_array

from common.rl.environments.parts import Parts

COPIES = 6
SPACES = [
    MultiBinary(4),
    MultiBinary((2, 3)),
    MultiDiscrete([3, 1, 4]),
    MultiDiscrete([[2, 3], [4, 2]]),
    Tuple((Discrete(3), Box(-1, 1, (2, 2), np.float64), Discrete(2, start=-4))),
    Dict(z=Discrete(3), a=Dict(y=MultiBinary(2), b=Tuple((Box(0, 9, (), np.float32), MultiDiscrete([2, 2]))))),
    Dict(bytes=Box(0, 255, (5,), np.uint8), none=Box(0, 1, (0,)), whole=Box(-9, 9, (3,), np.int32)),
]


def samples(space: Any) -> list[Any]:
    space.seed(3)
    return [space.sample() for _ in range(COPIES)]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_one_and_many_are_as_gymnasium_flattens_them(space: Any) -> None:
    parts, observations = Parts(space), samples(space)
    expected = np.array([flatten(space, observation) for observation in observations], np.float32)
    one, many = (np.full((COPIES, *parts.space.shape), 7, np.float32) for _ in range(2))
    for row, observation in zip(one, observations, strict=True):
        parts.write_one(row, observation)
    parts.write(many, concatenate(space, observations, create_empty_array(space, COPIES)))
    np.testing.assert_array_equal(one, expected)
    np.testing.assert_array_equal(many, expected)
    assert all(parts.space.contains(row) for row in one)


def test_choices_that_begin_elsewhere() -> None:
    parts = Parts(MultiDiscrete(np.array([2, 3]), start=np.array([5, -1])))
    row = np.zeros(5, np.float32)
    parts.write_one(row, np.array([6, -1]))
    assert row.tolist() == [0, 1, 1, 0, 0]


def test_pictures_are_scaled() -> None:
    space = Dict(seen=Box(0, 255, (2, 3, 1), np.uint8), told=Box(0, 255, (1,), np.uint8))
    parts = Parts(space)
    row = np.zeros(7, np.float32)
    parts.write_one(row, {"seen": np.full((2, 3, 1), 51, np.uint8), "told": np.array([51], np.uint8)})
    np.testing.assert_allclose(row, [0.2] * 6 + [51])
    assert (parts.space.high == [1] * 6 + [255]).all()


@pytest.mark.parametrize("value", [2, 7])
def test_a_choice_that_is_none_is_an_error(value: int) -> None:
    with pytest.raises(IndexError):
        Parts(MultiDiscrete([2, 2])).write_one(np.zeros(4, np.float32), np.array([0, value]))
