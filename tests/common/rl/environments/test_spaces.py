from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Sequence, Text

from common.errors import EnvironmentMissingError, UnavailableError
from common.rl.environments.spaces import ObservationBuffer, describe
from common.rl.observation_spec import ObservationSpec


@pytest.mark.parametrize(
    ("space", "spec"),
    [
        (Box(-1, 1, (12,), np.float64), ObservationSpec((12,), "box", 12)),
        (Box(-1, 1, (2, 3), np.int32), ObservationSpec((2, 3), "box", 6)),
        (Box(-1, 1, (), np.float32), ObservationSpec((), "box", 1)),
        (Box(0, 255, (128,), np.uint8), ObservationSpec((128,), "box", 128)),
        (Box(0, 1, (96, 96, 3), np.float32), ObservationSpec((96, 96, 3), "box", 27648)),
        (Box(0, 255, (96, 80, 3), np.uint8), ObservationSpec((3, 96, 80), "pixels", 23040)),
        (Box(0, 255, (4, 84, 84), np.uint8), ObservationSpec((4, 84, 84), "pixels", 28224)),
        (Discrete(5, start=2), ObservationSpec((), "discrete", 5)),
    ],
)
def test_describes_what_the_network_receives(space: Box | Discrete, spec: ObservationSpec) -> None:
    assert describe(space) == spec


@pytest.mark.parametrize("space", [Text(3), Sequence(Discrete(2)), Dict(a=Discrete(2)), Box(0, 1, (0,))])
def test_refuses_other_observations_by_name(space: Any) -> None:
    with pytest.raises(EnvironmentMissingError, match=f"observation space {type(space).__name__}.*Box, Discrete"):
        describe(space)


def test_buffer_puts_channels_first() -> None:
    picture = np.random.default_rng(0).integers(256, size=(6, 7, 3), dtype=np.uint8)
    buffer = ObservationBuffer(Box(0, 255, (6, 7, 3), np.uint8), 2, "X")
    buffer.put(1, picture)
    found = buffer.finished()
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found[1], np.moveaxis(picture, 2, 0))
    assert not found[0].any()


def test_buffer_counts_discrete_values_from_zero_again_and_again() -> None:
    buffer = ObservationBuffer(Discrete(4, start=-3), 2, "X")
    for _ in range(2):
        buffer.put_all((-3, 0))
        found = buffer.finished()
        np.testing.assert_array_equal(found, [0, 3])
        assert found.dtype == np.int64


PICTURE = Box(0, 255, (6, 7, 3), np.uint8)
NUMBERS = Box(-1, 1, (4,), np.float64)


@pytest.mark.parametrize(
    ("space", "observation", "said"),
    [
        (Discrete(5), 5, r"the observation 5, which is none of Discrete\(5\)"),
        (Discrete(5), -1, "the observation -1, "),
        (Discrete(4, start=-3), np.int64(-4), "the observation -4, "),
        (Discrete(4, start=-3), 1, "the observation 1, "),
        (
            NUMBERS,
            np.zeros(1),
            r"of shape \(1,\) and float64, which is none of Box\(-1\.0, 1\.0, \(4,\)",
        ),
        (NUMBERS, 0.5, r"of shape \(\) "),
        (NUMBERS, [0.5], r"of shape \(1,\) "),
        (NUMBERS, None, r"of shape \(\) and object"),
        (PICTURE, np.zeros((6, 7, 3)), r"of shape \(6, 7, 3\) and float64"),
        (PICTURE, np.zeros((6, 7, 1), np.uint8), r"of shape \(6, 7, 1\) and uint8"),
    ],
)
def test_an_observation_that_is_none_of_the_space_is_refused(space: Any, observation: Any, said: str) -> None:
    buffer = ObservationBuffer(space, 2, "X")
    buffer.put(0, space.sample())
    with pytest.raises(UnavailableError, match=f"environment X gave .*{said}"):
        buffer.put(1, observation)
        buffer.finished()


@pytest.mark.parametrize(
    ("space", "observation"),
    [
        (Discrete(5), np.array(4)),
        (NUMBERS, [1, 2, 3, 4]),
        (NUMBERS, np.ones((1, 4), np.float32)),
        (Box(-1, 1, (), np.float32), np.array(0.5)),
        (PICTURE, np.ones((6, 7, 3), np.int64)),
        (Box(0, 255, (4,), np.uint8), np.ones(4)),
    ],
)
def test_another_form_of_the_same_numbers_is_taken(space: Any, observation: Any) -> None:
    buffer = ObservationBuffer(space, 2, "X")
    for index in range(2):
        buffer.put(index, observation)
    assert buffer.finished()[1].ravel().tolist() == np.ravel(observation).tolist()
