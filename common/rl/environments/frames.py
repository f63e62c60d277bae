"""Pictures of an environment as observations: grey (ITU-R 601-2 luma), cropped, and shrunk to a square."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray
from PIL import Image

Crop = tuple[float, float]
"""Shares of a picture's height that are cut off, at its top and at its bottom."""
_MASKS = (0xFF, 0xFF00, 0xFF0000, 0)
"""Channel masks of a pygame surface in Pillow's order of bytes: red, green, blue, and one unused."""


class Camera:
    """Takes pictures of environments that were made with render_mode="rgb_array"."""

    def __init__(self, size: int, crop: Crop = (0.0, 0.0)) -> None:
        """size: pixels along each side of a picture."""
        self.space = Box(0, 255, (1, size, size), np.uint8)
        self._size = size
        self._crop = crop

    def picture(self, environment: gymnasium.Env[Any, Any]) -> NDArray[np.uint8]:
        """Return the current picture, of `space`."""
        return self.shrunk(np.asarray(environment.render()))

    def shrunk(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a picture of `space`, from one (height, width, 3)."""
        # pygame's arrays are views of column-major surfaces; Pillow reads those ten times as fast in memory order.
        sideways = picture.strides[0] < picture.strides[1]
        return self._grey(Image.fromarray(picture.swapaxes(0, 1) if sideways else picture), sideways)

    def _grey(self, image: Image.Image, sideways: bool = False) -> NDArray[np.uint8]:
        (top, bottom), (width, height) = self._crop, image.size
        kept: tuple[float, float, float, float] = (0.0, top * height, width, (1 - bottom) * height)
        if sideways:
            kept = (top * width, 0.0, (1 - bottom) * width, height)
        frame = np.asarray(image.convert("L").resize((self._size, self._size), Image.Resampling.BOX, kept))[None]
        return frame.swapaxes(1, 2) if sideways else frame


class FlappyCamera(Camera):
    """A camera for a FlappyBird that passes `can_draw`: several times as fast, with the same pixels.

    FlappyBird's `render()` blends a background with an alpha channel, though nothing lies behind it, and copies twice.
    """

    def picture(self, environment: gymnasium.Env[Any, Any]) -> NDArray[np.uint8]:
        game: Any = environment.unwrapped
        if game._surface.get_masks() != _MASKS:
            _prepare(game)
        game._draw_surface(show_score=False, show_rays=False)
        surface = game._surface
        # The picture shares the surface's memory, which is locked for as long as the picture lives.
        return self._grey(Image.frombuffer("RGBX", surface.get_size(), surface.get_view("0"), "raw", "RGBX", 0, 1))


def camera(environment: gymnasium.Env[Any, Any], size: int, crop: Crop = (0.0, 0.0)) -> Camera:
    """Return the fastest camera for environments like this one."""
    return FlappyCamera(size, crop) if can_draw(environment) else Camera(size, crop)


def can_draw(environment: gymnasium.Env[Any, Any]) -> bool:
    """Return whether this is a FlappyBird with the private attributes that FlappyCamera uses."""
    game = environment.unwrapped
    inside = ("_surface", "_images", "_draw_surface")
    return type(game).__name__ == "FlappyBirdEnv" and all(hasattr(game, name) for name in inside)


def _prepare(game: Any) -> None:
    import pygame

    background = game._images["background"]
    game._surface = pygame.Surface(game._surface.get_size(), 0, 32, _MASKS)
    if background is not None:
        game._images["background"] = pygame.Surface(background.get_size(), 0, game._surface)
        game._images["background"].blit(background, (0, 0))
