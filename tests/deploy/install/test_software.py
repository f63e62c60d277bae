from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError, UnavailableError
from deploy.install import software
from deploy.install.software import digest, find


def test_a_wheel_given_comes_before_those_that_it_needs(wheel: Path, tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    for name in (wheel.name, "torch-2-x.whl", "numpy-2-x.whl", "notes.txt"):
        (house / name).touch()
    assert find(wheel, house, tmp_path) == (wheel, house / "numpy-2-x.whl", house / "torch-2-x.whl")
    assert find(wheel, None, tmp_path) == (wheel,)
    assert digest(wheel) == hashlib.sha256(b"a wheel").hexdigest()


def test_files_that_are_not_there(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"x\.whl does not exist"):
        find(tmp_path / "x.whl", None, tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="empty holds no wheel"):
        find(wheel, tmp_path / "empty", tmp_path)


def test_a_wheel_is_built_of_the_source_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[1:4] == ["-m", "pip", "wheel"]
        Path(command[command.index("--wheel-dir") + 1], "a3cd-2-py3-none-any.whl").touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("subprocess.run", pip)
    assert find(None, None, tmp_path) == (tmp_path / "a3cd-2-py3-none-any.whl",)


def test_no_wheel_can_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.run", lambda *_, **__: subprocess.CompletedProcess([], 1, "", "no hatchling"))
    with pytest.raises(UnavailableError, match=r"no wheel could be built .*: no hatchling"):
        find(None, None, tmp_path)
    monkeypatch.setattr(software, "_PROJECT", tmp_path)
    with pytest.raises(ConfigurationError, match="name the wheel to install with --wheel FILE"):
        find(None, None, tmp_path)
