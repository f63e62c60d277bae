from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Sequence, Text

from common.errors import EnvironmentMissingError
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
    buffer = ObservationBuffer(Box(0, 255, (6, 7, 3), np.uint8), 2)
    buffer.put(1, picture)
    found = buffer.finished()
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found[1], np.moveaxis(picture, 2, 0))
    assert not found[0].any()


def test_buffer_counts_discrete_values_from_zero_again_and_again() -> None:
    buffer = ObservationBuffer(Discrete(4, start=-3), 2)
    for _ in range(2):
        buffer.put(..., (-3, 0))
        np.testing.assert_array_equal(buffer.finished(), [0, 3])
    assert buffer.finished().dtype == np.int64
