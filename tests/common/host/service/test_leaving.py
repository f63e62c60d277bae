from __future__ import annotations

import subprocess
import sys

LEAVE = "import atexit, sys, threading, time\nfrom common.host.service.leaving import leave\n"


def ended(script: str) -> tuple[int, str]:
    """Exit code, and what was written."""
    command = [sys.executable, "-P", "-c", LEAVE + script]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def test_what_was_written_and_what_is_registered_is_not_lost() -> None:
    script = "atexit.register(print, 'the end'); print('a line', end=' '); leave(75)"
    assert ended(script) == (75, "a line the end\n")


def test_nothing_is_taken_apart() -> None:
    script = "class Large:\n    def __del__(self): print('taken apart')\nlarge = Large(); leave(0)"
    assert ended(script) == (0, "")


def test_a_thread_that_works_is_waited_for() -> None:
    script = "threading.Thread(target=lambda: (time.sleep(0.1), print('done'))).start(); leave(3)"
    assert ended(script) == (3, "done\n")


def test_an_output_that_is_closed() -> None:
    assert ended("sys.stdout.close(); leave(4)") == (4, "")
