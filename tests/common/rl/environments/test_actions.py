"""What the environment is given for what was drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from common.errors import EnvironmentMissingError
from common.rl.action_spec import ActionSpec, discrete
from common.rl.environments.actions import ActionMap

INF = np.inf
MIXED = Box(np.array([-2, 0, -INF, -1, -INF], np.float32), np.array([2, 10, INF, INF, 3], np.float32))
DRAWN = np.array([[0.5, -1, 7, -7, 7], [3, 3, -7, 7, -7], [-INF, 0, 0, 0, 0]], np.float32)


def test_discrete_actions_count_from_the_spaces_start() -> None:
    actions = ActionMap(Discrete(4, start=5))
    assert actions.spec == discrete(4)
    assert actions.own(np.arange(4)).tolist() == [5, 6, 7, 8]
    assert not actions.same
    assert ActionMap(Discrete(4)).same


def test_several_choices() -> None:
    actions = ActionMap(MultiDiscrete(np.array([[2, 3]]), start=np.array([[1, -1]])))
    assert actions.spec == ActionSpec("multi-discrete", (2, 3), (1, 2))
    assert actions.own(np.array([[[0, 0]], [[1, 2]]])).tolist() == [[[1, -1]], [[2, 1]]]


def test_clipped_into_the_bounds_there_are() -> None:
    actions = ActionMap(MIXED)
    assert actions.spec == ActionSpec("box", shape=(5,), squashed=(False,) * 5)
    own = actions.own(DRAWN)
    assert own.dtype == np.float32
    assert own.tolist() == [[1, 0, 7, -1, 3], [2, 10, -7, 7, -7], [-2, 5, 0, 0, 0]]


def test_squashed_where_there_are_both_bounds() -> None:
    actions = ActionMap(MIXED, "tanh")
    assert actions.spec.squashed == (True, True, False, False, False)
    tanh = np.tanh(DRAWN)
    expected = np.column_stack([2 * tanh[:, 0], 5 + 5 * tanh[:, 1], [7, -7, 0], [-1, 7, 0], [3, -7, 0]])
    np.testing.assert_allclose(actions.own(DRAWN), expected, rtol=1e-6)


def drawn_for(space: Any, actions: ActionMap, rng: np.random.Generator) -> Any:
    if isinstance(space, Box):
        return (3 * rng.standard_normal((200, *space.shape))).astype(np.float32)
    return rng.integers(0, np.reshape(actions.spec.sizes, space.shape), (200, *space.shape))


@pytest.mark.parametrize("bounds", ["clip", "tanh"])
def test_what_comes_out_is_of_the_space(bounds: Any) -> None:
    rng = np.random.default_rng(0)
    for space in (
        Box(0.1, 0.7, (2, 3), np.float64),
        Box(-0.3, 0.1, (), np.float32),
        Box(0, 255, (4,), np.uint8),
        Box(-3e38, 3e38, (1,), np.float32),
        MIXED,
        Discrete(3),
        Discrete(3, start=7, dtype=np.int8),
        Discrete(4, start=250, dtype=np.uint8),
        MultiDiscrete([3, 2]),
        MultiDiscrete([3, 2], dtype=np.int32),
        MultiDiscrete(np.array([[3, 100]]), dtype=np.int8, start=np.array([[-1, -128]])),
    ):
        actions = ActionMap(space, bounds)
        for own in actions.own(drawn_for(space, actions, rng)):
            assert space.contains(np.asarray(own) if space.shape == () else own), own


def test_the_edges_can_be_reached() -> None:
    actions = ActionMap(Box(0, 255, (1,), np.uint8))
    assert actions.own(np.array([[-1], [0], [1]], np.float32)).tolist() == [[0], [128], [255]]


@pytest.mark.parametrize(
    "space",
    [Tuple((Discrete(2),)), Dict(a=Discrete(2)), MultiBinary(3), Text(4), Box(-1, 1, (0,)), Box(-1, 1, (2, 0))],
)
def test_refuses_other_actions_by_name(space: Any) -> None:
    named = rf"action space {type(space).__name__}.*Discrete, MultiDiscrete and Box are"
    with pytest.raises(EnvironmentMissingError, match=named):
        ActionMap(space)
