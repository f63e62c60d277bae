"""Fixtures for every room."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import psutil
import pytest


def _held() -> tuple[set[int], set[str], int]:
    """Children, threads, and the number of open descriptors (sockets and pipes among them)."""
    this = psutil.Process()
    threads = {thread.name for thread in threading.enumerate()}
    children = {child.pid for child in this.children(recursive=True)}
    return children, threads, this.num_fds() if psutil.POSIX else this.num_handles()


@pytest.fixture
def nothing_left_behind() -> Iterator[None]:
    """Fails a test after which a process, a thread or a socket is left that was not there before."""
    gc.collect()
    children, threads, descriptors = _held()
    yield
    deadline = time.monotonic() + 5
    while True:
        gc.collect()
        children_now, threads_now, descriptors_now = _held()
        left = children_now - children, threads_now - threads, max(0, descriptors_now - descriptors)
        if left == (set(), set(), 0):
            return
        if time.monotonic() > deadline:
            pytest.fail(f"left behind: processes {left[0]}, threads {left[1]}, descriptors {left[2]}")
        time.sleep(0.05)
