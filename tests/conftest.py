"""Fixtures for all tests, and the profiles of Hypothesis: random, ci, quick (make quick), many (make examples)."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq
from hypothesis import HealthCheck, settings

_ANY_SPEED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
"""A busy machine is no error."""
settings.register_profile("random", **_ANY_SPEED)
settings.register_profile("ci", derandomize=True, **_ANY_SPEED)  # a change fails by what it changes, not by chance
settings.register_profile("quick", max_examples=10, **_ANY_SPEED)
settings.register_profile("many", max_examples=2000, **_ANY_SPEED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if "CI" in os.environ else "random"))

BEGIN_BEFORE = float(os.environ.get("TESTS_BEGIN_BEFORE", "inf"))
"""Unix time; tests that would begin later are skipped."""
PATIENCE_SECONDS = 5.0
"""For what is being closed: a child to be reaped, a socket that ZeroMQ's own thread closes."""
_THIS = psutil.Process()
_TASKS = Path("/proc/self/task")


def pytest_runtest_setup() -> None:
    if time.time() > BEGIN_BEFORE:
        pytest.skip("the time for tests was over (TESTS_BEGIN_BEFORE)")


@pytest.fixture(scope="session", autouse=True)
def imports_are_no_garbage() -> None:
    """The collector never looks at what the imports made again: each `gc.collect` below would take half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_process_thread_or_listener_left() -> Iterator[None]:
    """Fails every test after which a child, a non-daemon thread or a listening socket is left that was not before."""
    yield from _compared(_held)


@pytest.fixture(autouse=True)
def floats_as_they_were() -> Iterator[None]:
    """A daemon run inside a test flushes denormals for its whole process, which later tests must not see."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture
def nothing_left_behind() -> Iterator[None]:
    """Fails a test after which a process, any thread or any descriptor is left that was not there before."""
    gc.collect()
    yield from _compared(_everything_held)


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    """A ZeroMQ context that is closed with all its sockets after the test."""
    one = _Context()
    yield one
    one.destroy(linger=0)


class _Context(zmq.Context[zmq.Socket[bytes]]):
    """Keeps its sockets: pyzmq warns of one that is collected unclosed, and here a warning is an error."""

    held: tuple[zmq.Socket[bytes], ...] = ()

    def socket(self, *args: Any, **options: Any) -> zmq.Socket[bytes]:
        one = super().socket(*args, **options)
        self.held += (one,)
        return one


def _compared(held: Callable[[], set[str]]) -> Iterator[None]:
    before = held()
    yield
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := held() - before:
        if time.monotonic() > deadline:
            pytest.fail("left behind: " + ", ".join(sorted(left)))
        gc.collect()
        time.sleep(0.02)


def _held() -> set[str]:
    """Children, threads and listening sockets; cheap enough for twice per test."""
    threads = {f"thread {thread.name}" for thread in threading.enumerate() if not thread.daemon}
    listeners = {
        f"listener {connection.laddr} (descriptor {connection.fd})"
        for connection in _THIS.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    return threads | listeners | {f"process {pid}" for pid in _children()}


def _everything_held() -> set[str]:
    threads = {f"thread {thread.name}" for thread in threading.enumerate()}
    descriptors = _THIS.num_fds() if psutil.POSIX else _THIS.num_handles()
    return _held() | threads | {f"descriptor {number}" for number in range(descriptors)}


def _children() -> set[int]:
    """From /proc where there is one: psutil looks at every process of the machine."""
    if not _TASKS.exists():
        return {child.pid for child in _THIS.children()}
    children: set[int] = set()
    for task in _TASKS.iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            children |= {int(pid) for pid in (task / "children").read_text().split()}
    return children
