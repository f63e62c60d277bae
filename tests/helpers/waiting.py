"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

PATIENCE_SECONDS = 100.0
"""Longest wait for anything expected; loading torch takes ten seconds when all cores are busy."""

T = TypeVar("T")


def until(
    look: Callable[[], T | None],
    what: str = "what was waited for",
    seconds: float = PATIENCE_SECONDS,
    *,
    pause: float = 0.02,
    of: object = "",
) -> T:
    """Returns the first true value of `look`; if none comes in time, fails the test and shows `of` as it is then."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:.0f} s: {what} {of}")
        time.sleep(pause)
    return found
