"""Observations as users have them become frames, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from common.errors import ObservationError
from common.rl.environments.actions import ActionMap
from common.rl.environments.frames import Camera
from common.rl.environments.interface import Interface, interface
from common.rl.environments.spaces import describe
from common.rl.frame_stack import FrameStack
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Environment

CAMERA = Camera(84)
PARTS = Dict({"where": Box(-1, 1, (2,), np.float32), "what": Discrete(3)})
PAIR = Tuple((Discrete(2), Box(-1, 1, (1,), np.float32)))


def of(space: gymnasium.Space[Any], *, camera: Camera | None = None) -> Interface:
    composed = isinstance(space, Dict | Tuple | MultiBinary | MultiDiscrete)
    size = gymnasium.spaces.flatdim(space)
    frame = ObservationSpec((size,), "box", size) if composed else describe(space)
    return Interface(space, ActionMap(Discrete(2)), frame, frame, None, camera)


@pytest.mark.parametrize(
    ("space", "observation", "row"),
    [
        (Box(-1, 1, (2,), np.float64), [0.5, 1], [0.5, 1]),
        (Box(-1, 1, (), np.float32), 0.5, 0.5),
        (Box(0, 255, (2,), np.uint8), np.array([1, 255], np.uint8), [1, 255]),
        (Discrete(3, start=5), 7, 2),
        (MultiDiscrete([2, 3]), [1, 2], [0, 1, 0, 0, 1]),
        (MultiDiscrete(np.array([[2], [2]])), [[1], [0]], [0, 1, 1, 0]),
        (MultiBinary(3), [1, 0, 1], [1, 0, 1]),
    ],
)
def test_one_observation_and_a_batch(space: Any, observation: Any, row: Any) -> None:
    rows, one = of(space).rows(observation)
    assert one
    assert rows.tolist() == [row]
    assert rows.dtype == of(space).frame.dtype
    rows, one = of(space).rows(np.array([observation] * 3))
    assert not one
    assert rows.tolist() == [row] * 3


@pytest.mark.parametrize(
    ("space", "observation", "row"),
    [
        (PARTS, {"what": 2, "where": np.array([0.5, 0])}, [0, 0, 1, 0.5, 0]),
        (PARTS, {"what": np.array([2]), "where": [0.5, 0]}, [0, 0, 1, 0.5, 0]),
        (PAIR, (1, np.array([0.5])), [0, 1, 0.5]),
    ],
)
def test_of_parts_a_batch_is_a_list(space: Any, observation: Any, row: Any) -> None:
    assert of(space).rows(observation)[0].tolist() == [row]
    rows, one = of(space).rows([observation] * 2)
    assert (rows.tolist(), one) == ([row] * 2, False)
    assert of(space).rows([])[0].shape == (0, len(row))


def test_pictures_have_their_colours_first() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3), np.uint8)
    rows, one = of(Box(0, 255, (20, 30, 3), np.uint8)).rows(pictures)
    assert not one
    np.testing.assert_array_equal(rows, pictures.transpose(0, 3, 1, 2))


def test_pictures_of_the_environment_are_shrunk_as_in_training() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (2, 200, 150, 3), np.uint8)
    seen = of(CAMERA.space, camera=CAMERA)
    np.testing.assert_array_equal(seen.rows(pictures)[0], [CAMERA.shrunk(one) for one in pictures])
    np.testing.assert_array_equal(seen.rows(pictures[0])[0], [CAMERA.shrunk(pictures[0])])
    assert seen.rows(np.zeros((84, 84), np.uint8))[0].shape == (1, 1, 84, 84)


BOX = Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize(
    ("space", "observation", "why"),
    [
        (
            BOX,
            np.zeros(3),
            r"shape \(3,\) of float64; here one has \(2,\) of numbers, and a batch of B has \(B, 2\)",
        ),
        (BOX, np.zeros((1, 2, 2)), r"shape \(1, 2, 2\)"),
        (BOX, 0.0, r"shape \(\)"),
        (BOX, None, "of object"),
        (BOX, ["a", "b"], "of <U1"),
        (BOX, [[1, 2], [3]], "is no array"),
        (BOX, [1, np.nan], "not finite"),
        (BOX, [1, 1e300], "not finite"),
        (BOX, {"a": 1}, "of object"),
        (Discrete(3), 1.0, "of float64; here one has .* of integers"),
        (Discrete(3), 3, r"beyond Discrete\(3\)"),
        (Discrete(3, start=1), 0, "beyond"),
        (CAMERA.space, np.zeros((1, 84, 84)), "of float64; here one has .* of uint8"),
        (CAMERA.space, np.zeros((210, 160, 3), np.uint8), r"shape \(210, 160, 3\)"),
        (MultiDiscrete([2, 3]), [2, 0], "is not of MultiDiscrete"),
        (MultiDiscrete([2, 3]), [0.5, 1.7], "is not of MultiDiscrete"),
        (MultiDiscrete([2, 3]), [np.nan, 0], "is not of MultiDiscrete"),
        (MultiBinary(3), [256, 0, 1], "is not of MultiBinary"),
        (PARTS, {"where": np.zeros(2)}, "does not fit Dict.*'what'"),
        (PARTS, {"where": np.zeros(2), "what": -1}, "does not fit Dict.*: a choice that is none of its space"),
        (Tuple((MultiDiscrete([2, 3]), Discrete(2))), ([2, 0], 1), "does not fit Tuple.*: a choice that is none"),
        (PARTS, {"where": np.zeros(3), "what": 1}, "does not fit Dict"),
        (PARTS, {"where": np.array([np.nan, 0]), "what": 1}, "not finite"),
        (PARTS, np.zeros(5), "does not fit Dict"),
        (PAIR, (1,), "does not fit Tuple"),
    ],
)
def test_what_is_no_observation_is_refused(space: Any, observation: Any, why: str) -> None:
    with pytest.raises(ObservationError, match=why):
        of(space).rows(observation)


def test_where_the_environment_draws_the_error_says_so() -> None:
    with pytest.raises(ValueError, match=r"a picture .* does as well"):
        of(CAMERA.space, camera=CAMERA).rows(np.zeros((2, 2), np.uint8))


@pytest.mark.parametrize(
    "space",
    [
        BOX,
        Box(-9, 9, (3,), np.int32),
        Discrete(3, start=2),
        Discrete(3, start=7, dtype=np.int8),
        PARTS,
        MultiDiscrete([2, 3]),
        Box(0, 255, (20, 30, 3), np.uint8),
    ],
    ids=str,
)
def test_a_frame_is_given_back_as_its_observation(space: Any) -> None:
    space.seed(0)
    observation = space.sample()
    one = of(space)
    rows, _ = one.rows(observation)
    given = one.given(rows[0])
    assert space.contains(given)
    np.testing.assert_equal(given, observation)
    rows[...] = 0  # the next step's observation is written into the same memory
    np.testing.assert_equal(given, observation)


def test_the_arrays_of_the_user_are_not_used_on() -> None:
    picture = np.zeros((1, 84, 84), np.uint8)
    picture.flags.writeable = False
    assert of(CAMERA.space).rows(picture)[0].flags.writeable


MAKE: Callable[..., Environment] = Environment


def test_of_an_environment() -> None:
    plain = interface(MAKE(id="CartPole-v1", frame_stack=3))
    assert plain.frame.shape == (4,)
    assert plain.observation.shape == (12,)
    assert plain.stack == FrameStack(3)
    assert plain.camera is None
    game = interface(MAKE(id="ALE/Pong-v5"))
    assert game.space == CAMERA.space
    assert (game.observation.shape, game.stack, game.camera) == ((4, 84, 84), FrameStack(4, padded=True), None)
    assert game.actions.space == Discrete(6)
    seen = interface(MAKE(id="CartPole-v1", observation="frames", frame_size=44, frame_stack=1, crop_top=0.5))
    assert (seen.observation.shape, seen.stack) == ((1, 44, 44), None)
    assert seen.camera is not None
    assert seen.camera.space == seen.space
    below = np.arange(400)[:, None, None] >= 200
    assert (seen.camera.shrunk(np.broadcast_to(255 * below, (400, 600, 3)).astype(np.uint8)) == 255).all()
