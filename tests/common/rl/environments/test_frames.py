from __future__ import annotations

from typing import Any

import flappy_bird_gymnasium  # noqa: F401
import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from common.rl.environments.frames import Camera, FlappyCamera, camera, can_draw


class Screen:
    def __init__(self, picture: NDArray[np.uint8]) -> None:
        self.picture = picture

    def render(self) -> NDArray[np.uint8]:
        return self.picture


def frame(picture: NDArray[np.uint8], size: int = 84) -> NDArray[np.uint8]:
    screen: Any = Screen(picture)
    return Camera(size).picture(screen)


@pytest.mark.parametrize(("colour", "luma"), [((255, 255, 255), 255), ((255, 0, 0), 76), ((0, 255, 0), 150)])
def test_colours_become_their_luma(colour: tuple[int, int, int], luma: int) -> None:
    picture = np.empty((40, 60, 3), np.uint8)
    picture[:] = colour
    found = frame(picture)
    assert (found.shape, found.dtype) == ((1, 84, 84), np.uint8)
    assert (found == luma).all()


@pytest.mark.parametrize("size", [84, 44])
def test_each_pixel_is_the_mean_of_its_area(size: int) -> None:
    grey = np.random.default_rng(0).integers(256, size=(size * 2, size * 3), dtype=np.uint8)
    expected = grey.reshape(size, 2, size, 3).mean(axis=(1, 3))
    found = frame(np.repeat(grey[:, :, None], 3, axis=2), size)
    np.testing.assert_allclose(found[0], expected, atol=1.5)


@pytest.mark.parametrize("sideways", [False, True])
def test_what_is_cropped_is_not_seen(sideways: bool) -> None:
    picture = np.random.default_rng(2).integers(256, size=(176, 90, 3), dtype=np.uint8)
    if sideways:
        picture = np.ascontiguousarray(picture.swapaxes(0, 1)).swapaxes(0, 1)
    cropped = Camera(44, (0.125, 0.375)).shrunk(picture)
    np.testing.assert_allclose(cropped.astype(int), frame(picture[22:110], 44).astype(int), atol=1)


def test_pictures_that_lie_sideways_in_memory_look_the_same() -> None:
    picture = np.random.default_rng(1).integers(256, size=(120, 90, 3), dtype=np.uint8)
    sideways = np.ascontiguousarray(picture.swapaxes(0, 1)).swapaxes(0, 1)
    assert sideways.strides != picture.strides
    np.testing.assert_allclose(frame(sideways).astype(int), frame(picture).astype(int), atol=1)


@pytest.mark.parametrize("background", ["day", "night", None])
def test_flappy_bird_s_pictures_are_pixel_for_pixel_the_same(background: str | None) -> None:
    games: list[gymnasium.Env[Any, Any]] = [
        gymnasium.make("FlappyBird-v0", render_mode="rgb_array", use_lidar=False, background=background)
        for _ in range(2)
    ]
    for game in games:
        game.reset(seed=3)
    ours, theirs = games
    fast, usual = camera(ours, 84), Camera(84)
    assert isinstance(fast, FlappyCamera)
    for step in range(120):
        np.testing.assert_array_equal(fast.picture(ours), usual.picture(theirs))
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
