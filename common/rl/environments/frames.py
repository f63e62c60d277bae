"""Pictures of an environment as observations: grey (ITU-R 601-2 luma), the whole of it shrunk to (1, 84, 84)."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray
from PIL import Image

SIDE = 84
"""Pixels; height and width of a frame, as DQN and A3C had them (Mnih et al. 2015, https://doi.org/10.1038/nature14236)."""
FRAME_SPACE = Box(0, 255, (1, SIDE, SIDE), np.uint8)
_MASKS = (0xFF, 0xFF00, 0xFF0000, 0)
"""Of a surface in Pillow's order of bytes: red, green, blue, and one unused."""


def grey_frame(environment: gymnasium.Env[Any, Any]) -> NDArray[np.uint8]:
    """The current picture of an environment that was made with render_mode='rgb_array'."""
    return grey(np.asarray(environment.render()))


def grey(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """As FRAME_SPACE has it, of a picture (height, width, 3)."""
    # pygame's arrays are views of column-major surfaces; Pillow reads them ten times as fast in the order of memory.
    sideways = picture.strides[0] < picture.strides[1]
    frame = _shrunk(Image.fromarray(picture.swapaxes(0, 1) if sideways else picture))
    return frame.swapaxes(1, 2) if sideways else frame


def can_draw(environment: gymnasium.Env[Any, Any]) -> bool:
    """Whether this is a FlappyBird with the private attributes that `flappy_frame` uses; otherwise use `grey_frame`."""
    game = environment.unwrapped
    inside = ("_surface", "_images", "_draw_surface")
    return type(game).__name__ == "FlappyBirdEnv" and all(hasattr(game, name) for name in inside)


def flappy_frame(environment: gymnasium.Env[Any, Any]) -> NDArray[np.uint8]:
    """As `grey_frame`, for an environment that `can_draw`: several times as fast, with the same pixels.

    FlappyBird's `render()` blends a background with an alpha channel, though nothing lies behind it, and copies twice.
    """
    game: Any = environment.unwrapped
    if game._surface.get_masks() != _MASKS:
        _prepare(game)
    game._draw_surface(show_score=False, show_rays=False)
    surface = game._surface
    # The picture shares the surface's memory, which is locked for as long as the picture lives.
    return _shrunk(Image.frombuffer("RGBX", surface.get_size(), surface.get_view("0"), "raw", "RGBX", 0, 1))


def _prepare(game: Any) -> None:
    import pygame

    background = game._images["background"]
    game._surface = pygame.Surface(game._surface.get_size(), 0, 32, _MASKS)
    if background is not None:
        game._images["background"] = pygame.Surface(background.get_size(), 0, game._surface)
        game._images["background"].blit(background, (0, 0))


def _shrunk(image: Image.Image) -> NDArray[np.uint8]:
    return np.asarray(image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX))[None]
