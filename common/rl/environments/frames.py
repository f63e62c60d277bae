"""Pictures of an environment as observations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray
from PIL import Image

SIDE = 84
"""Pixels; height and width of a frame, as DQN and A3C had them (Mnih et al. 2015, https://doi.org/10.1038/nature14236)."""
FRAME_SPACE = Box(0, 255, (1, SIDE, SIDE), np.uint8)


def grey_frame(environment: gymnasium.Env[Any, Any]) -> NDArray[np.uint8]:
    """The current picture, grey (ITU-R 601-2 luma), the whole of it shrunk to (1, 84, 84).

    The environment must have been made with render_mode='rgb_array'.
    """
    picture = np.asarray(environment.render())
    # pygame's arrays are views of column-major surfaces; Pillow reads them ten times as fast in the order of memory.
    sideways = picture.strides[0] < picture.strides[1]
    image = Image.fromarray(picture.swapaxes(0, 1) if sideways else picture)
    frame = shrunk(image)
    return (frame.T if sideways else frame)[None]


def shrunk(image: Image.Image) -> NDArray[np.uint8]:
    """A picture in colours, grey and shrunk to (84, 84)."""
    return np.asarray(image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX))
