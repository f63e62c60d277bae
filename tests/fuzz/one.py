"""One target under atheris, with libFuzzer's own options: `python -P tests/fuzz/one.py TARGET [-runs=N] [CORPUS]`."""

from __future__ import annotations

import atexit
import signal
import sys
import time
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))
with atheris.instrument_imports(include=["common", "learner", "actor", "deploy"]):
    from tests.fuzz.targets import TARGETS

HANG_SECONDS = 1.0
"""Of this thread's processor time: a busy machine is no hang."""


def timely(data: bytes) -> None:
    begun = time.thread_time()
    target(data)
    taken = time.thread_time() - begun
    assert taken < HANG_SECONDS, f"{taken:.1f} s for one input"


if __name__ == "__main__":
    target = TARGETS[sys.argv[1]]
    for size in (0, 100):
        target(bytes(size))  # what is loaded and made with the first call is no hang
    # libFuzzer's own timer would end a process that takes its time to leave.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], timely)
    atheris.Fuzz()
