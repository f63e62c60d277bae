from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from actor.agent import recording
from actor.agent.recording import record
from common.errors import ConfigurationError

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
    result = record(trained_run(), out, episodes=2, seed=3)
    assert result.path == out
    assert len(result.returns) == 2
    with Image.open(out) as image:
        assert (image.format, image.size) == ("GIF", (600, 400))
        # A GIF shows pictures that are alike as one, for longer; CartPole is made for 50 a second.
        shown = sum(frame.info["duration"] for frame in ImageSequence.Iterator(image))
    assert shown == 20 * (sum(result.returns) + 2)


@pytest.mark.usefixtures("nothing_left_behind")
@pytest.mark.parametrize("name", ["cart.mp4", "cart.webm", "cart.MP4"])
def test_video(trained_run: MakeRun, tmp_path: Path, name: str) -> None:
    result = record(trained_run(), tmp_path / name)
    assert about(tmp_path / name) == ("600x400", "50", result.returns[0] + 1)


def test_capped(trained_run: MakeRun, tmp_path: Path) -> None:
    assert record(trained_run(), tmp_path / "cart.gif", max_steps=3).returns == [3.0]


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
    """Small pictures are all sent before ffmpeg notices, large ones are not."""
    frames = iter([np.zeros((side, side, 3), np.uint8)] * 3)
    with pytest.raises(OSError, match="No such file or directory"):
        recording._write_video(tmp_path / "none" / "a.mp4", frames, 10.0)


def test_an_encoder_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_ffmpeg", lambda kind: "false")
    with pytest.raises(OSError, match="ffmpeg ended with 1"):
        recording._write_video(tmp_path / "a.mp4", iter([np.zeros((512, 512, 3), np.uint8)] * 3), 10.0)


def test_a_missing_package_names_the_extra(
    trained_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigurationError, match=re.escape(".mp4 files need ffmpeg: pip install 'a3cd[video]'")):
        record(trained_run(), tmp_path / "cart.mp4")
