"""Two results of one benchmark side by side: which rows belong together, and that none is left out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import compare
from benchmarks.compare import compared, names
from benchmarks.tables import Cell


def table(title: str, columns: str, *rows: list[Cell]) -> dict[str, Any]:
    return {"title": title, "columns": columns.split(","), "rows": [list(row) for row in rows]}


def test_rows_of_one_name_in_two_tables_are_two() -> None:
    before = [table("10 actors", ",s", ["directly", 2.0]), table("100 actors", ",s", ["directly", 8.0])]
    after = [table("100 actors", ",s", ["directly", 4.0]), table("10 actors", ",s", ["directly", 6.0])]
    assert compared(before, after) == {
        "10 actors": [("directly", "s", 2.0, 6.0, 3.0)],
        "100 actors": [("directly", "s", 8.0, 4.0, 0.5)],
    }


def test_a_row_whose_result_is_in_words_is_the_same_row_when_it_got_worse() -> None:
    columns = "algorithm,exchange,reached,frames"
    before = table("to 475", columns, ["a3c", "gradients", "3/3", 100], ["a3c", "actions", "3/3", 200])
    after = table("to 475", columns, ["a3c", "gradients", "2/3", 300], ["a3c", "actions", "3/3", None])
    assert compared([before], [after])["to 475"] == [
        ("a3c, gradients", "reached", "3/3", "2/3", None),
        ("a3c, gradients", "frames", 100, 300, 3.0),
        ("a3c, actions", "frames", 200, None, None),
    ]


def test_a_row_without_a_partner_is_named() -> None:
    before = [table("one", ",s", ["old", 1.0], ["both", 1.0]), table("gone", ",s", ["all", 1.0])]
    after = [table("one", ",s", ["both", 1.0], ["new", 1.0])]
    assert compared(before, after) == {
        "one": [
            ("old", "only before", None, None, None),
            ("both", "s", 1.0, 1.0, 1.0),
            ("new", "only after", None, None, None),
        ],
        "gone": [("all", "only before", None, None, None)],
    }


def test_a_row_is_named_by_the_first_columns_that_tell_the_rows_apart() -> None:
    assert names([["a", 4, 0.5]], [["a", 8, 0.5]]) == 1
    assert names([["a", 1, 0.5], ["a", 2, 0.5]], [["a", 1, 0.25]]) == 2, "the same columns in both"
    assert names([["a", 0.5], ["a", 0.25]]) == 1, "what has a fraction was measured"
    assert names([[0.5, 0.25]]) == 0
    assert names([], []) == 0


def test_columns_and_rows_of_one_name_are_numbered() -> None:
    (rows,) = compared(
        [table("one", ",most,most", ["a", 1.0, 2.0], ["a", 3.0, 4.0])],
        [table("one", ",most,most", ["a", 2.0, 4.0], ["a", 3.0, 4.0])],
    ).values()
    assert [row[:2] for row in rows] == [
        ("a", "most"), ("a", "most, no. 2"), ("a, no. 2", "most"), ("a, no. 2", "most, no. 2"),
    ]  # fmt: skip


def test_what_is_printed_says_of_which_runs_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = {"cores": 2, "processor": "one"}
    result = {"benchmark": "goal", "arguments": [], "date": "today", "machine": machine, "commit": "0123"}
    for name, seconds in (("before", 2.0), ("after", 3.0)):
        made = result | {"tables": [table("to 475", ",s", ["seed 0", seconds])]}
        (tmp_path / name).write_text(json.dumps(made), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["compare", str(tmp_path / "before"), str(tmp_path / "after")])
    compare.main()
    said = capsys.readouterr().out
    assert "goal: to 475" in said
    assert "no options" in said
    assert said.splitlines()[-1].split() == ["seed", "0", "s", "2.0", "3.0", "1.5"]
