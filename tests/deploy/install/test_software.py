from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError, UnavailableError
from deploy.install import software
from deploy.install.layout import SYSTEM
from deploy.install.software import Software, find, installed
from deploy.install.step import Command, File


def wheel(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(path.name.encode())
    return path


def test_a_wheel_given_with_its_wheelhouse(tmp_path: Path) -> None:
    mine = wheel(tmp_path / "a3cd-1-py3-none-any.whl")
    house = tmp_path / "house"
    for name in ("a3cd-1-py3-none-any.whl", "torch-2-x.whl", "numpy-2-x.whl"):
        wheel(house / name)
    found = find(mine, house, tmp_path)
    assert found == Software(mine, (house / "numpy-2-x.whl", house / "torch-2-x.whl"))
    steps = installed(SYSTEM, "python3", found)
    assert [step.path for step in steps if isinstance(step, File)] == [
        f"/opt/a3cd-wheels/{name}" for name in ("a3cd-1-py3-none-any.whl", "numpy-2-x.whl", "torch-2-x.whl")
    ]
    (needs,) = [step for step in steps if isinstance(step, Command) and step.what == "what a3cd needs"]
    assert "--no-index" in needs.argv


def test_without_a_wheelhouse_the_hosts_pip_finds_what_is_needed(tmp_path: Path) -> None:
    steps = installed(SYSTEM, "python3.12", Software(wheel(tmp_path / "a3cd-1-py3-none-any.whl")))
    venv, needs, own = (step for step in steps if isinstance(step, Command))
    assert venv.argv[:3] == ["python3.12", "-m", "venv"]
    assert "--no-index" not in needs.argv
    assert {"--no-deps", "--force-reinstall"} <= set(map(str, own.argv))


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"x\.whl does not exist"):
        find(tmp_path / "x.whl", None, tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="empty holds no wheel"):
        find(wheel(tmp_path / "a.whl"), tmp_path / "empty", tmp_path)


def test_a_wheel_is_built_of_the_source_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[1:4] == ["-m", "pip", "wheel"]
        wheel(Path(command[command.index("--wheel-dir") + 1]) / "a3cd-2-py3-none-any.whl")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("subprocess.run", pip)
    assert find(None, None, tmp_path).wheel == tmp_path / "a3cd-2-py3-none-any.whl"


def test_no_wheel_can_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.run", lambda *_, **__: subprocess.CompletedProcess([], 1, "", "no hatchling"))
    with pytest.raises(UnavailableError, match=r"no wheel could be built .*: no hatchling"):
        find(None, None, tmp_path)
    monkeypatch.setattr(software, "_PROJECT", tmp_path)
    with pytest.raises(ConfigurationError, match="name the wheel to install with --wheel FILE"):
        find(None, None, tmp_path)
