from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from actor.agent import recording
from actor.agent.recording import record
from actor.agent.rendering import Picture
from actor.agent.trained_agent import TrainedAgent
from common.errors import A3cdError, ConfigurationError, UnavailableError

MakeRun = Callable[..., Path]


def about(video: Path) -> tuple[str, str, int]:
    """Its size and rate as ffmpeg tells them, and its number of frames."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    told = subprocess.run([ffmpeg.get_ffmpeg_exe(), "-i", str(video)], capture_output=True, text=True).stderr
    size, rate = re.search(r"Video: .* (\d+x\d+)", told), re.search(r"([\d.]+) fps", told)
    assert size, told
    assert rate, told
    return size[1], rate[1], ffmpeg.count_frames_and_secs(str(video))[0]


def test_gif(trained_run: MakeRun, tmp_path: Path) -> None:
    out = tmp_path / "cart.gif"
    returns = record(trained_run(), out, episodes=2, seed=3)
    assert len(returns) == 2
    with Image.open(out) as image:
        assert (image.format, image.size) == ("GIF", (600, 400))
        # A GIF shows pictures that are alike as one, for longer; CartPole is made for 50 a second.
        shown = sum(frame.info["duration"] for frame in ImageSequence.Iterator(image))
    assert shown == 20 * (sum(returns) + 2)


@pytest.mark.usefixtures("nothing_left_behind")
@pytest.mark.parametrize("name", ["cart.mp4", "cart.webm", "cart.MP4"])
def test_video(trained_run: MakeRun, tmp_path: Path, name: str) -> None:
    returns = record(trained_run(), tmp_path / name)
    assert about(tmp_path / name) == ("600x400", "50", returns[0] + 1)


def test_capped(trained_run: MakeRun, tmp_path: Path) -> None:
    assert record(trained_run(), tmp_path / "cart.gif", max_steps=3) == [3.0]


def test_the_limit_is_for_all_episodes_together(trained_run: MakeRun, tmp_path: Path) -> None:
    """The cart falls after 9 or 10 steps; a GIF is in memory until it is written."""
    returns = record(trained_run(), tmp_path / "cart.gif", episodes=50, max_steps=25)
    assert len(returns) == 3
    assert sum(returns) == 25


@pytest.mark.parametrize(("name", "most"), [("cart.gif", 1_000), ("cart.mp4", 27_000)])
def test_the_limit_of_each_kind_of_file(
    trained_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    asked: list[int] = []

    def one_picture(agent: TrainedAgent, *, max_steps: int, seed: int) -> Iterator[Picture]:
        asked.append(max_steps)
        yield Picture(np.zeros((32, 32, 3), np.uint8), 0.0, 1)

    monkeypatch.setattr(recording, "pictures", one_picture)
    record(trained_run(), tmp_path / name)
    assert asked == [most]


def test_a_picture_that_stands_still_too_long_for_a_gif(tmp_path: Path) -> None:
    frames = iter([np.zeros((8, 8, 3), np.uint8)] * 700)
    with pytest.raises(OSError, match=r"stands still for longer than a GIF can show \(655 s\)"):
        recording._write_gif(tmp_path / "a.gif", frames, 1.0)


def test_odd_sides_are_cut_to_even_ones(tmp_path: Path) -> None:
    frame = np.zeros((33, 65, 3), np.uint8)
    recording._write_video(tmp_path / "a.mp4", iter([frame, frame]), 10.0)
    assert about(tmp_path / "a.mp4") == ("64x32", "10", 2)


def test_another_kind_of_file(trained_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cart\.avi: a recording is a \.gif, \.mp4 or \.webm file"):
        record(trained_run(), tmp_path / "cart.avi")


def test_no_folder(trained_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"there is no folder {tmp_path / 'none'}")):
        record(trained_run(), tmp_path / "none" / "cart.gif")


def test_a_file_that_cannot_be_written(trained_run: MakeRun, tmp_path: Path) -> None:
    (tmp_path / "cart.gif").mkdir()
    with pytest.raises(ConfigurationError, match=r"cart\.gif: cannot be written: Is a directory"):
        record(trained_run(), tmp_path / "cart.gif")


@pytest.mark.parametrize("side", [16, 512])
def test_a_video_that_cannot_be_written(tmp_path: Path, side: int) -> None:
    """ffmpeg has taken all small pictures before it fails; the large ones meet a broken pipe."""
    frames = iter([np.zeros((side, side, 3), np.uint8)] * 3)
    with pytest.raises(OSError, match="ffmpeg failed"):
        recording._write_video(tmp_path / "none" / "a.mp4", frames, 10.0)


def test_an_earlier_recording_is_replaced(trained_run: MakeRun, tmp_path: Path) -> None:
    out = tmp_path / "cart.webm"
    out.write_text("an old file")
    record(trained_run(), out, max_steps=2)
    assert about(out)[2] == 3


def test_a_film_that_is_cut_off_does_not_replace_an_earlier_one(tmp_path: Path) -> None:
    """As on a full disk: ffmpeg has written some of it."""
    pytest.importorskip("imageio_ffmpeg")
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    noise = np.random.default_rng(0)
    frames = (noise.integers(0, 255, (128, 128, 3), dtype=np.uint8) for _ in range(60))
    out = tmp_path / "cart.mp4"
    out.write_text("an old film")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        said = r"cart\.mp4: cannot be written: ffmpeg failed"
        with pytest.raises(UnavailableError, match=said), recording._whole(out) as partial:
            recording._write_video(partial, frames, 10.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert out.read_text() == "an old film"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOSPC, UnavailableError), (errno.EIO, UnavailableError), (errno.EACCES, ConfigurationError)],
)
def test_a_disk_that_fails_is_not_the_operators_fault(tmp_path: Path, number: int, kind: type[A3cdError]) -> None:
    said = re.escape(f"cannot be written: {os.strerror(number)}")
    with pytest.raises(kind, match=said), recording._whole(tmp_path / "cart.gif"):
        raise OSError(number, os.strerror(number))


def test_an_environment_that_fails_leaves_an_earlier_recording_alone(
    trained_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise UnavailableError("it fell over")

    monkeypatch.setattr(recording, "pictures", fail)
    out = tmp_path / "cart.gif"
    out.write_text("an old film")
    with pytest.raises(UnavailableError, match="it fell over"):
        record(trained_run(), out)
    assert out.read_text() == "an old film"
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_a_missing_package_names_the_extra(
    trained_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigurationError, match=re.escape(".mp4 files need ffmpeg: pip install 'a3cd[video]'")):
        record(trained_run(), tmp_path / "cart.mp4")
