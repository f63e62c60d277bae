"""Small programs in place of those that a launcher runs, and what became of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil


def program(folder: Path, name: str, source: str) -> Path:
    """Writes a Python program that can be run by its name if `folder` comes first in PATH."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{source}")
    path.chmod(0o755)
    return path


def alive(pid: int) -> bool:
    """Returns whether the process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def words_of(process: psutil.Process) -> list[str]:
    """Returns the command line of a process; of one that has ended, none."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def lines(path: Path) -> list[str]:
    """Returns the lines of a file that may not exist yet."""
    return path.read_text().splitlines() if path.exists() else []


def first_in_path(folder: Path) -> str:
    """Returns a value of PATH in which `folder` comes first."""
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
