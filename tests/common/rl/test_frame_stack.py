"""Stacks of frames against a list of all frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.rl.frame_stack import FrameStack

DEPTH, ENVS, STEPS = 3, 4, 12


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("shape", [(), (2,), (1, 5, 4), (3, 2, 2)])
@pytest.mark.parametrize("in_place", [False, True])
def test_the_last_frames_of_the_episode_oldest_first(shape: tuple[int, ...], padded: bool, in_place: bool) -> None:
    rng = np.random.default_rng(0)
    frames = rng.integers(1, 256, size=(STEPS, ENVS, *shape), dtype=np.uint8)
    fresh = rng.random((STEPS, ENVS)) < 0.3
    fresh[0] = True
    stack = FrameStack(DEPTH, padded=padded)
    first, *rest = shape or (1,)
    before: Any = np.full((ENVS, DEPTH * first, *rest), 7, np.uint8)
    for t in range(STEPS):
        stacks = before if in_place else np.full_like(before, 9)
        stack.push(stacks, before, frames[t])
        stack.begin(stacks, frames[t], fresh[t])
        for b in range(ENVS):
            begun = max(s for s in range(t + 1) if fresh[s, b])
            parts = [frames[s, b] if s >= begun else frames[begun, b] * (not padded) for s in range(t - 2, t + 1)]
            assert stacks[b].tolist() == np.concatenate([np.atleast_1d(part) for part in parts]).tolist()
        before = stacks


def test_without_a_stack_the_frame_is_the_observation() -> None:
    stack, shown = FrameStack(1), np.zeros((2, 3), np.float32)
    frames = np.ones((2, 3), np.float32)
    stack.push(shown, shown, frames)
    assert shown.tolist() == frames.tolist()
    discrete = np.zeros(2, np.int64)
    stack.begin(discrete, np.array([4, 5]), np.array([True, False]))
    assert discrete.tolist() == [4, 0]
