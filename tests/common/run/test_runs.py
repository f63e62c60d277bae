from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError, UnavailableError
from common.run.runs import all_runs, find_run


def make_run(folder: Path, created: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(f'{{"run": "{"0" * 16}", "created": "{created}", "epoch": 1, "a3cd": "1"}}')
    return folder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two runs, one of them in a folder more, and things that are none."""
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "b", "2026-01-01T00:00:00+00:00")
    make_run(tmp_path / "runs" / "study" / "a", "2026-01-02T00:00:00+00:00")
    (tmp_path / "runs" / "study" / "a" / "checkpoints" / "1").mkdir(parents=True)
    (tmp_path / "runs" / ".hidden").mkdir()
    (tmp_path / "runs" / "notes.txt").write_text("")
    return tmp_path / "runs"


def names(folder: Path) -> list[str]:
    return [str(run.path.relative_to(folder)) for run in all_runs(folder)]


def test_all_runs_of_a_folder(runs: Path) -> None:
    assert names(runs) == ["b", "study/a"]
    assert names(runs / "b") == ["."]


def test_what_is_left_of_a_run_counts_as_one(runs: Path) -> None:
    (runs / "c").mkdir()
    (runs / "c" / "metrics.jsonl").write_text("")
    assert names(runs) == ["b", "c", "study/a"]


def test_no_folder_and_no_folder_of_runs(runs: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no such folder"):
        all_runs(runs / "x")
    with pytest.raises(ConfigurationError, match="is a file, not a folder of runs"):
        all_runs(runs / "notes.txt")


def test_last_is_the_newest_that_can_be_read(runs: Path) -> None:
    broken = make_run(runs / "z", "2026-01-03T00:00:00+00:00")
    (broken / "run.json").write_text("{")
    assert find_run(Path("last")) == Path("runs/study/a")


def test_a_folder_may_be_called_last(runs: Path) -> None:
    made = make_run(runs.parent / "last", "2026-01-01T00:00:00+00:00")
    assert find_run(made) == made
    assert find_run(Path("last")) == Path("runs/study/a")


@pytest.mark.parametrize("made", [True, False])
def test_last_without_a_run(made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if made:
        (tmp_path / "runs").mkdir()
    with pytest.raises(ConfigurationError, match=r"last: there is no run in .*runs"):
        find_run(Path("last"))


def test_what_is_no_run(runs: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing: there is no such folder"):
        find_run(Path("nothing"))
    with pytest.raises(ConfigurationError, match=re.escape("holds no run itself, but runs in folders, such as")):
        find_run(runs)
    assert find_run(runs / "notes.txt") == runs / "notes.txt", "what reads it says what it is"


def test_a_folder_that_may_not_be_opened_is_passed_over(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (runs / "lost+found").mkdir()
    stat = Path.stat

    def refuse(path: Path, **how: Any) -> os.stat_result:
        if path.parent.name == "lost+found":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", refuse)
    assert names(runs) == ["b", "study/a"]
    with pytest.raises(UnavailableError, match="cannot be read now: Permission denied"):
        all_runs(runs / "lost+found")


def test_a_name_that_the_disk_cannot_look_up(runs: Path) -> None:
    for look in (find_run, all_runs):
        with pytest.raises(UnavailableError, match="cannot be read now: File name too long"):
            look(runs / (300 * "x"))
