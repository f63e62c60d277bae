"""The age of this process, from given readings of the clock."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from deploy.cli import elapsed

STAT = "7900 (a3cd (x) train) R 7874 7874 19338 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 1 0 182794 3133440 387"


def test_the_start_is_found_after_a_name_with_brackets() -> None:
    assert elapsed.start_ticks(STAT) == 182794


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_wall_clock_and_the_time_of_boot_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    only = SimpleNamespace(clock_gettime=time.clock_gettime, CLOCK_BOOTTIME=time.CLOCK_BOOTTIME)
    monkeypatch.setattr(elapsed, "time", only)
    monkeypatch.setitem(sys.modules, "psutil", None)
    first = elapsed.since_start()
    assert 0.0 < first <= elapsed.since_start()


def test_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    now = psutil.Process().create_time() + 12.5
    monkeypatch.setattr(elapsed, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr(elapsed, "time", SimpleNamespace(time=lambda: now))
    assert elapsed.since_start() == pytest.approx(12.5)
