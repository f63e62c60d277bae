"""Small programs in the place of those that a launcher runs, and patience for what they set going."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

PATIENCE_SECONDS = 30.0


def program(folder: Path, name: str, source: str) -> Path:
    """A Python program that can be run by its name where `folder` comes first in PATH."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{source}")
    path.chmod(0o755)
    return path


def until(look: Callable[[], object], what: str = "what was waited for") -> None:
    """Waits for it; fails after a long time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def lines(path: Path) -> list[str]:
    """Of a file that may not be there yet."""
    return path.read_text().splitlines() if path.exists() else []


def first_in_path(folder: Path) -> str:
    """For PATH."""
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
