from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from common.host.file_lock import is_held, lock


def test_a_locked_file_is_refused_or_waited_for_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as second:
        with path.open("w") as first:
            lock(first, wait=False)
            with pytest.raises(BlockingIOError):
                lock(second, wait=False)
            waiting = threading.Thread(target=lambda: lock(second, wait=True))
            waiting.start()
            waiting.join(0.1)
            assert waiting.is_alive()
        waiting.join(30.0)
        assert not waiting.is_alive()


def test_whether_a_lock_is_held_can_be_asked(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path)
    with path.open("w") as file:
        assert not is_held(path)
        lock(file, wait=False)
        assert is_held(path)
    assert not is_held(path)


def test_who_asks_is_not_taken_for_the_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    with path.open("w") as asking, path.open("w") as file:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not is_held(path), "two may ask at the same time"
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(asking, fcntl.LOCK_UN))
        lock(file, wait=False)
        assert is_held(path)


def test_what_is_no_file_holds_nothing_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    assert not is_held(tmp_path / "lock")
