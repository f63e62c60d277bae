from __future__ import annotations

import ctypes
import subprocess
import sys
import textwrap

import pytest

from common.host import heap
from common.host.heap import GROWN_BYTES, LOOK_SECONDS, Heap


class Memory:
    """Of a process, of which `free` bytes are given back when it is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, resident: int) -> None:
        self.resident, self.free, self.releases, self.looks = resident, 0, 0, 0
        monkeypatch.setattr(heap, "resident_bytes", self._look)
        monkeypatch.setattr(heap, "release_memory", self._release)

    def _look(self) -> int:
        self.looks += 1
        return self.resident

    def _release(self) -> None:
        self.releases += 1
        self.resident -= self.free
        self.free = 0


def test_memory_is_given_back_when_it_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, one = Memory(monkeypatch, 100), Heap()
    one.look(0.0)
    assert memory.releases == 0, "a small process has nothing to give"
    memory.resident, memory.free = 3 * GROWN_BYTES, 2 * GROWN_BYTES
    one.look(LOOK_SECONDS)
    assert (memory.releases, memory.resident) == (1, GROWN_BYTES)
    memory.resident, memory.free = 2 * GROWN_BYTES, GROWN_BYTES
    one.look(2 * LOOK_SECONDS)
    assert memory.releases == 1, "not for so little"
    memory.resident += 1
    one.look(3 * LOOK_SECONDS)
    assert memory.releases == 2


def test_what_is_needed_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, one = Memory(monkeypatch, 10 * GROWN_BYTES), Heap()
    for turn in range(10):
        one.look(turn * LOOK_SECONDS)
    assert memory.releases == 1
    memory.resident = 5 * GROWN_BYTES
    one.look(10 * LOOK_SECONDS)
    memory.resident = 7 * GROWN_BYTES
    one.look(11 * LOOK_SECONDS)
    assert memory.releases == 2, "it needed less in between"


def test_between_two_looks_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, one = Memory(monkeypatch, 0), Heap()
    for turn in range(1000):
        one.look(turn * LOOK_SECONDS / 100)
    assert memory.looks == 10


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc's")
def test_a_process_that_leaves_holes_behind_stays_small() -> None:
    """Each turn frees 120 MB that the C library keeps, since something small is above it, and takes no block again."""
    script = """
    import ctypes
    from common.host.heap import LOOK_SECONDS, Heap
    from common.host.process import resident_bytes
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    one, most = Heap(), 0
    for turn in range(20):
        pieces = [libc.malloc(60_000 + 1000 * turn) for _ in range(2000)]
        for piece in pieces:
            ctypes.memset(piece, 1, 60_000)
        for piece in pieces[::2] + pieces[1:-1:2]:
            libc.free(piece)
        one.look(turn * LOOK_SECONDS)
        most = max(most, resident_bytes())
    print(most)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 2 * GROWN_BYTES + 2**26
