"""The mean picture of random play."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from common.rl.action_spec import discrete
from common.rl.environments.names import resolve
from common.settings.sections import Environment
from learner import background as module
from learner.background import background

SECTION = resolve(Environment(id="ALE/Pong-v5", frame_size=44))


class Flickering:
    """Pictures of three pixels: one is always 200, one is 10 in every second frame, one is 0."""

    action = discrete(4)

    def __init__(self) -> None:
        self.actions: list[int] = []
        self.closed = False

    def reset(self) -> Any:
        return np.array([[[[200, 0, 0]]]], np.uint8)

    def step(self, actions: Any) -> Any:
        self.actions += actions.tolist()
        return SimpleNamespace(observations=np.array([[[[200, 10 * (len(self.actions) % 2), 0]]]], np.uint8))

    def close(self) -> None:
        self.closed = True


def test_it_is_the_mean_of_the_pictures_and_the_scale_of_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Flickering()
    monkeypatch.setattr(module, "make", lambda section, num_envs, seed: played)
    np.testing.assert_allclose(background(SECTION, 0), [200, 5, 0, 1 / math.sqrt(25 / 3)], rtol=1e-5)
    assert played.closed
    assert set(played.actions) == {0, 1, 2, 3}, "any action is taken"


def test_pictures_that_never_change_are_not_blown_up(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Flickering()
    monkeypatch.setattr(module, "make", lambda section, num_envs, seed: played)
    monkeypatch.setattr(played, "step", lambda actions: SimpleNamespace(observations=played.reset()))
    assert background(SECTION, 0).tolist() == [200, 0, 0, 1]


def test_an_environment_that_fails_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Flickering()
    monkeypatch.setattr(module, "make", lambda section, num_envs, seed: played)
    monkeypatch.setattr(played, "step", lambda actions: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        background(SECTION, 0)
    assert played.closed


def test_the_same_seed_gives_the_same_of_a_game() -> None:
    found = background(SECTION, 3)
    assert found.shape == (4 * 44 * 44 + 1,)
    assert found.dtype == np.float32
    pictures = found[:-1].reshape(4, -1)
    np.testing.assert_allclose(pictures, np.broadcast_to(pictures[0], pictures.shape), atol=2)
    np.testing.assert_array_equal(found, background(SECTION, 3))
    assert not np.array_equal(found, background(SECTION, 4))
