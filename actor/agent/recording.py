"""Record a trained agent as an animated GIF or a video."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from actor.agent import EPISODE_STEPS, GIF_STEPS
from actor.agent.rendering import natural_rate, pictures
from actor.agent.trained_agent import TrainedAgent, Which, open_run
from common.errors import WRONG_PATH, ConfigurationError, UnavailableError
from common.rl.seeds import held_out_seeds

CODECS = {".mp4": "libx264", ".webm": "libvpx-vp9"}
Pixels = NDArray[np.uint8]
Writer = Callable[[Path, Iterator[Pixels], float], None]
"""Writes frames (height, width, 3), RGB, to a file at a rate in frames per second; raises OSError."""


def record(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    episodes: int = 1,
    sampled: bool | None = None,
    seed: int = 0,
    max_steps: int | None = None,
    checkpoint: Which = "best",
) -> list[float]:
    """Record episodes of a run's agent in the file `out` (.gif, .mp4 or .webm), which is replaced.

    Ends after `episodes` episodes, or after `max_steps` steps of all episodes together; None: GIF_STEPS for a .gif,
    else EPISODE_STEPS. `run`, `checkpoint` and `sampled` as for `evaluate`. Returns each episode's return, the
    undiscounted sum of the environment's own rewards.
    Raises ConfigurationError (no run, no such environment, it draws no pictures, another kind of file, a package is
    missing, the file cannot be written) and UnavailableError (the environment or the disk fails).
    """
    file = Path(out)
    write, default_steps = _writer(file)
    trained = open_run(run, checkpoint)
    rate = natural_rate(trained.settings.environment)
    seeds = held_out_seeds("report", seed)
    returns: list[float] = []

    def frames(agent: TrainedAgent) -> Iterator[Pixels]:
        left = default_steps if max_steps is None else max_steps
        while left > 0 and len(returns) < episodes:
            for picture in pictures(agent, max_steps=left, seed=next(seeds)):
                yield picture.pixels
            left -= picture.length
            returns.append(picture.episode_return)

    agent = TrainedAgent(trained, num_envs=1, seed=next(seeds), sampled=sampled, render_mode="rgb_array")
    with closing(agent), _whole(file) as partial:
        write(partial, frames(agent), rate)
    return returns


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """Give a file for the recording, which takes the place of `out` once it is complete.

    Raises ConfigurationError for what the operator can put right, UnavailableError for a disk that fails.
    """
    partial = out.with_name(f".{out.stem}.partial{out.suffix}")
    try:
        if out.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        partial.write_bytes(b"")  # fails before anything is played if the file cannot be written
        yield partial
        partial.replace(out)
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]
        kind = ConfigurationError if error.errno in (None, *WRONG_PATH) else UnavailableError
        raise kind(f"{out}: cannot be written: {reason}") from error
    finally:
        partial.unlink(missing_ok=True)


def _writer(out: Path) -> tuple[Writer, int]:
    """Return the writer for this kind of file and its default limit of steps; checked before anything is played."""
    kind = out.suffix.lower()
    if not out.parent.is_dir():
        raise ConfigurationError(f"{out}: there is no folder {out.parent}")
    if kind == ".gif":
        return _write_gif, GIF_STEPS
    if kind not in CODECS:
        raise ConfigurationError(f"{out}: a recording is a .gif, .mp4 or .webm file")
    try:
        from imageio_ffmpeg import get_ffmpeg_exe

        get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        text = f"{kind} files need ffmpeg: pip install 'a3cd[video]'; .gif files need nothing"
        raise ConfigurationError(text) from error
    return _write_video, EPISODE_STEPS


def _write_gif(out: Path, frames: Iterator[Pixels], rate: float) -> None:
    # GIF counts hundredths of a second, and browsers slow down GIFs of more than 50 pictures a second.
    hundredths = max(2, round(100 / rate))
    images = (Image.fromarray(np.ascontiguousarray(frame)).quantize() for frame in frames)
    first = next(images)
    try:
        first.save(out, format="GIF", save_all=True, append_images=images, duration=10 * hundredths, loop=0)
    except OverflowError as error:
        text = "the picture stands still for longer than a GIF can show (655 s); record an .mp4 or fewer --max-steps"
        raise OSError(text) from error


def _write_video(out: Path, frames: Iterator[Pixels], rate: float) -> None:
    """Lets ffmpeg write the file. It is not left to imageio_ffmpeg.write_frames, which ignores its exit code."""
    from imageio_ffmpeg import get_ffmpeg_exe

    first = next(frames)
    height, width = (side - side % 2 for side in first.shape[:2])  # both codecs take even sides only
    exact = str(Fraction(rate).limit_denominator())  # such as 24000/1001
    taken = ["-f", "rawvideo", "-s", f"{width}x{height}", "-pix_fmt", "rgb24", "-r", exact, "-i", "-"]
    given = ["-vcodec", CODECS[out.suffix.lower()], "-pix_fmt", "yuv420p", "-crf", "24", "-b:v", "0", f"file:{out}"]
    command = [get_ffmpeg_exe(), "-y", "-v", "error", *taken, *given]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as ffmpeg:
        assert ffmpeg.stdin is not None
        broken = False
        try:
            with ffmpeg.stdin as pipe:
                for frame in chain([first], frames):
                    pipe.write(frame[:height, :width].tobytes())
        except BrokenPipeError:
            broken = True
        except BaseException:
            ffmpeg.kill()
            raise
    if broken or ffmpeg.returncode:
        raise OSError(errno.EIO, "ffmpeg failed; its error stands above")
