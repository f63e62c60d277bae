"""FlappyBird's own way to pictures gives those of the general one."""

from __future__ import annotations

from typing import Any

import flappy_bird_gymnasium  # noqa: F401
import gymnasium
import numpy as np
import pytest

from common.rl.environments.flappy import can_draw, flappy_frame
from common.rl.environments.frames import grey_frame


@pytest.mark.parametrize("background", ["day", "night", None])
def test_its_pictures_are_pixel_for_pixel_the_same(background: str | None) -> None:
    games: list[gymnasium.Env[Any, Any]] = [
        gymnasium.make("FlappyBird-v0", render_mode="rgb_array", use_lidar=False, background=background)
        for _ in range(2)
    ]
    for game in games:
        game.reset(seed=3)
    ours, theirs = games
    assert can_draw(ours)
    for step in range(120):
        np.testing.assert_array_equal(flappy_frame(ours), grey_frame(theirs))
        over = [game.step(step % 18 == 0)[2] for game in games]
        if over[0]:
            for game in games:
                game.reset()
    np.testing.assert_array_equal(np.asarray(ours.render()), np.asarray(theirs.render()))
    for game in games:
        game.close()


def test_of_what_it_does_not_know_it_takes_no_picture() -> None:
    for name, options in (("CartPole-v1", {"render_mode": "rgb_array"}), ("FlappyBird-v0", {"use_lidar": False})):
        game = gymnasium.make(name, **options)
        assert not can_draw(game)
        game.close()
