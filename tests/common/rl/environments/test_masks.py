"""What is taken of an environment's info, and which masks are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.errors import A3cdError, ConfigurationError, EnvironmentMissingError, UnavailableError
from common.rl.action_spec import ActionSpec, discrete
from common.rl.environments.masks import ActionMasks, check
from common.rl.observation_spec import ObservationSpec

PAIR = ActionSpec("multi-discrete", (2, 3), (2,))
BOX = ObservationSpec((2,), "box", 2)


@pytest.mark.parametrize(
    ("action", "mask", "row"),
    [
        (discrete(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (discrete(3), [False, True, True], [0, 1, 1]),
        (discrete(3), np.array([0.0, 2.0, 0.0]), [0, 1, 0]),
        (PAIR, np.array([1, 0, 0, 1, 1]), [1, 0, 0, 1, 1]),
        (PAIR, (np.array([0, 1], np.int8), np.array([1, 0, 0], np.int8)), [0, 1, 1, 0, 0]),
    ],
)
def test_a_mask_is_taken(action: ActionSpec, mask: Any, row: list[int]) -> None:
    masks = ActionMasks(action, 2, "Mine")
    masks.put(1, {"action_mask": mask}, ended=False, after="step")
    assert masks.array.tolist() == [[1] * action.width, row]


@pytest.mark.parametrize(
    ("mask", "kind", "why"),
    [
        (None, EnvironmentMissingError, r'environment Mine: .* info has no "action_mask" after its step; leave'),
        ([1, 0], EnvironmentMissingError, r"Mine: .*is of shape \(2,\) and int64; it takes 5 numbers"),
        (np.ones((1, 5)), EnvironmentMissingError, r"shape \(1, 5\)"),
        (["a", "b", "c", "d", "e"], EnvironmentMissingError, "<U1; it takes 5"),
        (([1, 1], [[1], [1, 1]]), EnvironmentMissingError, "it takes 5"),
        ([], EnvironmentMissingError, "it takes 5"),
        (1, EnvironmentMissingError, r"shape \(\)"),
        ([0, 0, 0, 0, 0], UnavailableError, r'Mine: info\["action_mask"\] after its step allows no action'),
        ([0, 0, 1, 1, 1], UnavailableError, "allows no action"),
    ],
)
def test_what_is_no_mask_is_refused(mask: Any, kind: type[A3cdError], why: str) -> None:
    masks = ActionMasks(PAIR, 1, "Mine")
    with pytest.raises(kind, match=why):
        masks.put(0, {} if mask is None else {"action_mask": mask}, ended=False, after="step")


@pytest.mark.parametrize(("mask", "row"), [(None, [1] * 5), ([0] * 5, [1] * 5), ([0, 1, 0, 0, 0], [0, 1, 1, 1, 1])])
def test_at_the_end_of_an_episode_nothing_need_be_allowed(mask: Any, row: list[int]) -> None:
    masks = ActionMasks(PAIR, 1, "Mine")
    masks.put(0, {} if mask is None else {"action_mask": mask}, ended=True, after="step")
    assert masks.array.tolist() == [row]


def test_with_what_masks_do_not_go() -> None:
    check("Mine", BOX, PAIR)
    with pytest.raises(ConfigurationError, match="is for Discrete and MultiDiscrete actions; Mine has a Box"):
        check("Mine", BOX, ActionSpec("box", shape=(2,), squashed=(False, False)))
    with pytest.raises(ConfigurationError, match=r"does not go with pictures, which Mine gives: put a wrapper"):
        check("Mine", ObservationSpec((1, 8, 8), "pixels", 64), PAIR)
