from __future__ import annotations

import ctypes
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from common.host import process


def limited(soft: int, hard: int, script: str) -> str:
    """What it prints in a process with this limit of descriptors."""
    head = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
    head += "from common.host.process import *\n"
    return subprocess.run([sys.executable, "-c", head + script], check=True, capture_output=True, text=True).stdout


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    script = "print(raise_descriptor_limit(), raise_descriptor_limit(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    assert limited(100, 300, script).strip() == "300 300 (300, 300)"
    assert limited(300, 300, script).strip() == "300 300 (300, 300)"


def test_descriptors_and_memory_are_counted() -> None:
    before = process.open_descriptors()
    with open("/dev/null") as _:  # noqa: PTH123
        assert process.open_descriptors() == before + 1
    assert 2**20 < process.resident_bytes() < 2**40


def niceness(script: str, *, own_session: bool) -> list[str]:
    """Of a process that does this, and of its session among others (autogroups), unless it is in the first of all."""
    lines = ["import os", "from common.host.process import *", script]
    lines += ["print(os.nice(0), *open('/proc/self/autogroup').read().split()[2:])"]
    command = [sys.executable, "-c", "\n".join(lines)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, start_new_session=own_session)
    return said.stdout.split()


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="no autogroups")
def test_a_session_of_its_own_gives_way_as_a_whole_and_that_of_others_does_not() -> None:
    here = niceness("pass", own_session=False)
    assert niceness("give_way(7)", own_session=True) == [str(int(here[0]) + 7), "7"]
    assert niceness("give_way(7)", own_session=False) == [str(int(here[0]) + 7), *here[1:]]
    assert niceness("give_way(0)", own_session=True) == niceness("pass", own_session=True)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc's")
def test_freed_memory_is_given_back() -> None:
    script = """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    pieces = [libc.malloc(60_000) for _ in range(2000)]
    for piece in pieces:
        ctypes.memset(piece, 1, 60_000)
    for piece in pieces[:-1]:  # the last one is on top of them
        libc.free(piece)
    print(resident_bytes())
    release_memory()
    print(resident_bytes())
    """
    before, after = map(int, limited(100, 300, "import ctypes\n" + textwrap.dedent(script)).split())
    assert before - after > 100e6


def test_a_container_may_have_less_memory_than_its_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "_GROUP", tmp_path)
    machine = process.available_bytes()
    assert machine > 2**20
    (tmp_path / "memory.current").write_text("3000")
    (tmp_path / "memory.stat").write_text("anon 2000\nactive_file 500\ninactive_file 300\nslab_reclaimable 100\n")
    for most, left in (("5000\n", 2900), ("1000\n", 0)):
        (tmp_path / "memory.max").write_text(most)
        assert process.available_bytes() == left
    (tmp_path / "memory.max").write_text("max\n")
    assert process.available_bytes() > 2**20


def test_where_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_STATUS", process.Path("/no/such/file"))
    monkeypatch.setattr(process, "_OPEN", process.Path("/no/such/folder"))
    monkeypatch.setattr(process, "resource", None)
    assert (process.resident_bytes(), process.open_descriptors()) == (0, 0)
    assert process.raise_descriptor_limit() == process.DESCRIPTORS_UNKNOWN
