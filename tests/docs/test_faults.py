"""docs/faults.md: each test that its tables name is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")


def test_its_tables_name_tests_that_exist() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    faults = [row for row in rows if not row.startswith(("| fault |", "| --- |"))]
    assert len(faults) > 50
    missing = []
    for row in faults:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        missing += [(file, name) for file, name in named if name not in functions(ROOT / file)]
    assert missing == []


def functions(file: Path) -> set[str]:
    if not file.exists():
        return set()
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
