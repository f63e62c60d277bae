"""FlappyBird's pictures, several times as fast as by its `render()`, with the same pixels.

Its `render()` blends a background with an alpha channel in each frame, though nothing lies behind it, and copies the
picture twice, the second time transposed. `python benchmarks/environments.py` prints both times.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from common.rl.environments.frames import shrunk

_MASKS = (0xFF, 0xFF00, 0xFF0000, 0)
"""Of a surface in Pillow's order of bytes: red, green, blue, and one unused."""


def can_draw(environment: gymnasium.Env[Any, Any]) -> bool:
    """Whether this is a FlappyBird with the private attributes that `flappy_frame` uses; otherwise use `grey_frame`."""
    inside = ("_surface", "_images", "_draw_surface")
    return type(environment.unwrapped).__name__ == "FlappyBirdEnv" and all(
        hasattr(environment.unwrapped, name) for name in inside
    )


def flappy_frame(environment: gymnasium.Env[Any, Any]) -> NDArray[np.uint8]:
    """As `common.rl.environments.frames.grey_frame`, for an environment that `can_draw`."""
    game: Any = environment.unwrapped
    if game._surface.get_masks() != _MASKS:
        _prepare(game)
    game._draw_surface(show_score=False, show_rays=False)
    surface = game._surface
    # The picture shares the surface's memory, which is locked for as long as the picture lives.
    return shrunk(Image.frombuffer("RGBX", surface.get_size(), surface.get_view("0"), "raw", "RGBX", 0, 1))[None]


def _prepare(game: Any) -> None:
    import pygame

    background = game._images["background"]
    game._surface = pygame.Surface(game._surface.get_size(), 0, 32, _MASKS)
    if background is not None:
        game._images["background"] = pygame.Surface(background.get_size(), 0, game._surface)
        game._images["background"].blit(background, (0, 0))
