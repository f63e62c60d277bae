from __future__ import annotations

import sys
from pathlib import Path

import pytest

from common.host import load
from common.host.load import Load, LoadMeter

MEMORY = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:   12000 kB\nHugePages_Total:       0\n"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    files = tmp_path / "stat", tmp_path / "meminfo"
    monkeypatch.setattr(load, "_STAT", files[0])
    monkeypatch.setattr(load, "_MEMORY", files[1])
    return files


def test_what_was_used_since_the_last_look(kernel: tuple[Path, Path]) -> None:
    stat, memory = kernel
    memory.write_text(MEMORY)
    stat.write_text("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 100 0 100 700 100 0 0 0 50 0\n")
    meter = LoadMeter()
    assert meter.look() == Load(pytest.approx(0.2), 4000 * 1024, 16000 * 1024)  # type: ignore[arg-type]
    stat.write_text("cpu  160 5 110 715 105 3 2 0 50 0\n")
    first = meter.look()
    assert first is not None and first.processor == pytest.approx(0.8)
    again = meter.look()
    assert again is not None and again.processor == 0.0
    stat.write_text("cpu  160 5 110 700 105 3 2 0 50 0\n")
    back = meter.look()
    assert back is not None and 0.0 <= back.processor <= 1.0


@pytest.mark.parametrize(
    ("stat", "memory"), [("", MEMORY), ("cpu 1 2 3 4 5 6 7 8", "MemTotal: many kB"), ("cpu 1", "")]
)
def test_a_kernel_that_says_something_else_says_nothing(kernel: tuple[Path, Path], stat: str, memory: str) -> None:
    assert LoadMeter().look() is None
    kernel[0].write_text(stat)
    kernel[1].write_text(memory)
    found = LoadMeter().look()
    assert found is None or found.processor == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says it")
def test_here() -> None:
    found = LoadMeter().look()
    assert found is not None and 0.0 <= found.processor <= 1.0
    assert 0 < found.memory < found.memory_total
