from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from deploy.hold import folder as folders

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.fixture
def base() -> Iterator[Path]:
    """In a short path: a Unix socket's has at most a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="a3cd-") as name:
        yield Path(name)


def test_a_private_folder_for_each_launcher_and_learner(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folders.place("key/lab 1", "tcp://gpu:5555", base)
    assert folder.parent == base / f"a3cd-{os.getuid()}"
    assert folder.name.startswith("key_lab_1-")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)} == {0o700}
    assert folders.place("key/lab 1", "tcp://gpu:5555", base) == folder
    assert folders.place("key/lab_1", "tcp://gpu:5555", base) != folder
    assert folders.place("key/lab 1", "tcp://gpu:5556", base) != folder
    assert len(str(folders.place("x" * 128, "y", folders.BASE))) < 80, "room for a socket's name"
    folders.place("x" * 128, "y", folders.BASE).rmdir()
    monkeypatch.setattr("platform.node", lambda: "another")
    assert folders.place("key/lab 1", "tcp://gpu:5555", base) != folder, "two hosts with one /tmp"


def test_a_folder_that_is_not_ours_alone_is_refused(base: Path) -> None:
    (base / f"a3cd-{os.getuid()}").mkdir(mode=0o755)
    with pytest.raises(ConfigurationError, match=r"must be a folder of this user with mode 0700"):
        folders.place("lab", "x", base)
    (base / f"a3cd-{os.getuid()}").rmdir()
    (base / "elsewhere").mkdir(mode=0o700)
    (base / f"a3cd-{os.getuid()}").symlink_to(base / "elsewhere")
    with pytest.raises(ConfigurationError, match="move it away"):
        folders.place("lab", "x", base)


def test_the_lock_is_held_as_long_as_one_who_inherited_it_lives(base: Path) -> None:
    lock = folders.claim(base)
    assert lock is not None
    assert folders.claim(base) is None
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[lock],
    ) as heir:
        os.close(lock)
        assert folders.claim(base) is None
        heir.communicate()
    again = folders.claim(base)
    assert again is not None
    os.close(again)


def test_a_socket_whose_holder_is_dead_is_replaced(base: Path) -> None:
    assert folders.connect(base) is None
    folders.listen(base).close()
    assert folders.connect(base) is None
    with folders.listen(base) as listener:
        connection = folders.connect(base)
        assert connection is not None
        connection.close()
        listener.accept()[0].close()
