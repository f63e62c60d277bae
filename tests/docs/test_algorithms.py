"""docs/algorithms.md: its table agrees with the code."""

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
