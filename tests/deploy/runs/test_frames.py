from __future__ import annotations

import sys
from pathlib import Path

import pytest

import a3cd
from common.errors import ConfigurationError
from tests.helpers.run_folders import run_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed in range(3):
        run_folder(tmp_path / f"r{seed}", f"seed={seed}", summary={}, returns=(1.0, seed))
    return tmp_path


def test_tables_of_pandas(folder: Path) -> None:
    pytest.importorskip("pandas")
    table = a3cd.runs(folder)
    assert table["seed"].tolist() == [0, 1, 2]
    assert table["created"].dt.year.tolist() == [2026] * 3
    rows = a3cd.curves(str(folder))
    assert rows.groupby("seed")["mean_return"].last().tolist() == [0.0, 1.0, 2.0]
    assert rows["lag_mean"].isna().all()
    assert list(a3cd.curves(folder, columns=["frames"]))[-1] == "frames"


def test_no_runs_are_an_empty_table(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    assert len(a3cd.runs(tmp_path)) == 0
    assert len(a3cd.curves(tmp_path)) == 0
    with pytest.raises(ConfigurationError, match="there is no such folder"):
        a3cd.runs(tmp_path / "x")


def test_broken_runs_are_warned_of(folder: Path) -> None:
    pytest.importorskip("pandas")
    (folder / "r1" / "run.json").write_text("{")
    with pytest.warns(UserWarning, match=r"1 runs cannot be read and are left out: .*r1.run\.json"):
        assert a3cd.runs(folder)["seed"].tolist() == [0, 2]


def test_a_pandas_that_is_broken_says_so_itself(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pandas.py").write_text("raise ImportError('built for another numpy')")
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="built for another numpy"):
        a3cd.runs(folder)


def test_without_pandas_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for table in (a3cd.runs, a3cd.curves):
        with pytest.raises(ConfigurationError, match=r"pip install 'a3cd\[pandas\]'"):
            table(folder)
