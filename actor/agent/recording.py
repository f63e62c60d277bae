"""Recording a trained agent: an animated GIF, or a video."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from actor.agent.rendering import natural_rate, pictures
from actor.agent.trained_agent import TrainedAgent, Which, open_run
from common.errors import ConfigurationError

CODECS = {".mp4": "libx264", ".webm": "libvpx-vp9"}
MAX_STEPS = 1000
"""The longest recorded episode, unless asked otherwise: Pillow holds all pictures of a GIF in memory."""

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Recording:
    """What was written."""

    path: Path
    returns: list[float]
    """Of each episode; undiscounted, as the environment gives rewards."""


def record(
    run: Path,
    out: Path,
    *,
    episodes: int = 1,
    sampled: bool = False,
    seed: int = 0,
    max_steps: int = MAX_STEPS,
    checkpoint: Which = "best",
) -> Recording:
    """Play `episodes` episodes with a run's agent into the file `out`: .gif, .mp4 or .webm; one there is overwritten.

    Raises ConfigurationError (no run, no such environment, it draws no pictures, another kind of file, a package is
    missing, the file cannot be written), UnavailableError (the environment fails).
    """
    write = _writer(out)
    trained = open_run(run, checkpoint)
    rate = natural_rate(trained.settings.environment)
    agent = TrainedAgent(trained, copies=1, seed=seed, sampled=sampled, render_mode="rgb_array")
    returns: list[float] = []

    def shown() -> Iterator[Pixels]:
        for episode in range(episodes):
            for picture in pictures(agent, max_steps=max_steps, seed=seed + episode):
                yield picture.pixels
            returns.append(picture.episode_return)

    try:
        write(out, shown(), rate)
    except OSError as error:
        raise ConfigurationError(f"{out}: cannot be written: {error.strerror or error}") from error
    finally:
        agent.close()
    return Recording(out, returns)


def _writer(out: Path) -> Callable[[Path, Iterator[Pixels], float], None]:
    """What writes this kind of file; asked for before anything is played."""
    kind = out.suffix.lower()
    if not out.parent.is_dir():
        raise ConfigurationError(f"{out}: there is no folder {out.parent}")
    if kind == ".gif":
        return _write_gif
    if kind in CODECS:
        _ffmpeg(kind)
        return _write_video
    raise ConfigurationError(f"{out}: a recording is a .gif, .mp4 or .webm file")


def _write_gif(out: Path, frames: Iterator[Pixels], rate: float) -> None:
    # GIF counts hundredths of a second, and browsers slow down what is faster than 50 pictures a second.
    hundredths = max(2, round(100 / rate))
    images = (Image.fromarray(np.ascontiguousarray(frame)).quantize() for frame in frames)
    first = next(images)
    first.save(out, format="GIF", save_all=True, append_images=images, duration=10 * hundredths, loop=0)


def _write_video(out: Path, frames: Iterator[Pixels], rate: float) -> None:
    kind = out.suffix.lower()
    first = next(frames)
    height, width = (side - side % 2 for side in first.shape[:2])  # Both codecs take even sides only.
    command = [
        *(_ffmpeg(kind), "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"),
        *("-s", f"{width}x{height}", "-r", f"{rate:g}", "-i", "-"),
        *("-c:v", CODECS[kind], "-crf", "24", "-b:v", "0", "-pix_fmt", "yuv420p", str(out)),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as encoder:
        assert encoder.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It has ended; what it says of why is worth more.
            for frame in chain([first], frames):
                encoder.stdin.write(frame[:height, :width].tobytes())
        _, told = encoder.communicate()
    if encoder.returncode != 0:
        lines = told.decode(errors="replace").splitlines() or [f"ffmpeg ended with {encoder.returncode}"]
        raise OSError(lines[0])


def _ffmpeg(kind: str) -> str:
    """Path of the program; it comes with a package that is not always installed."""
    try:
        from imageio_ffmpeg import get_ffmpeg_exe

        return str(get_ffmpeg_exe())
    except (ImportError, RuntimeError) as error:
        raise ConfigurationError(
            f"{kind} files need ffmpeg: pip install 'a3cd[video]'; .gif files need nothing"
        ) from error
