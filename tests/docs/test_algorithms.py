"""docs/algorithms.md: its table and its example agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

from common.settings.exchanges import EXCHANGES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")


def test_the_table_has_every_algorithm_and_what_it_sends() -> None:
    table, *_ = TEXT.partition("`exchange.kind =")
    rows = re.findall(r"^\| (\S+) \| .* \| ([^|]+) \|$", table, re.MULTILINE)
    sent = {kind: tuple(re.findall(r"gradients|trajectories|actions", cell)) for kind, cell in rows if kind != "kind"}
    assert {kind: ways for kind, ways in sent.items() if kind != "---"} == EXCHANGES


def test_the_example_is_what_stands_in_the_code() -> None:
    (diff,) = re.findall(r"```diff\n(.*?)```", TEXT, re.DOTALL)
    added = [
        line.removeprefix("+").strip() for line in diff.splitlines() if line.startswith("+") and "Literal" not in line
    ]
    files = [ROOT / line.strip() for line in diff.splitlines() if line.startswith(" ")]
    sources = "".join(file.read_text(encoding="utf-8") for file in files)
    assert len(added) == 2
    assert all(line in sources for line in added)
