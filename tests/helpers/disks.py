"""Small disks that really fill up and really become read-only, for tests that may mount one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory


@cache
def lacking() -> str:
    """Returns why no disk can be mounted here; empty: one can."""
    if sys.platform != "linux":
        return "tmpfs is Linux's"
    if os.geteuid() != 0:
        return "only root mounts disks"
    with TemporaryDirectory() as place:
        probe = _run("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", place)
        if probe.returncode:
            return f"no disk may be mounted here: {probe.stderr.strip()}"
        _run("umount", place)
    return ""


class Disk:
    """A disk in memory, mounted at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Fills the disk to the last byte."""
        with (self.path / "filling").open("ab", buffering=0) as file:
            for size in (4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)

    def free(self) -> None:
        """Frees the space that `fill` took."""
        (self.path / "filling").unlink()


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Disk]:
    """Mounts a small disk at `path`; `size` as mount(8) takes it, such as 300k."""
    path.mkdir()
    done = _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    assert done.returncode == 0, done.stderr
    try:
        yield Disk(path)
    finally:
        _run("umount", "--lazy", str(path))
        path.rmdir()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Makes the folder read-only, as after a disk's error; files that are already open in it can still be written."""
    for words in (("--bind", str(folder), str(folder)), ("-o", "remount,bind,ro", str(folder))):
        done = _run("mount", *words)
        assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        _run("umount", "--lazy", str(folder))


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
