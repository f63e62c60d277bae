"""Two results of one benchmark side by side: `python -m benchmarks compare BEFORE.json AFTER.json`.

Rows with the same words are compared; each of their numbers is shown with the ratio of after to before. Figures from
two machines, or from two days on one machine, cannot be compared: measure both within an hour.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.tables import Cell

COLUMNS = ("", "figure", "before", "after", "after / before")
Key = tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    given = parser.parse_args()
    results = [json.loads(file.read_text(encoding="utf-8")) for file in (given.before, given.after)]
    if results[0]["benchmark"] != results[1]["benchmark"]:
        raise SystemExit(f"{given.before} is of {results[0]['benchmark']}, {given.after} of {results[1]['benchmark']}")
    for name, result in zip(("before", "after"), results, strict=True):
        machine = result["machine"]
        print(f"{name:7} {result['date']}  {result['commit'][:12]}  {machine['processor']}, {machine['cores']} cores")
    tables.show(results[0]["benchmark"], COLUMNS, compared(*results))


def compared(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[Cell, ...]]:
    """Yield a row of COLUMNS for each number that both results have."""
    later = dict(figures(after))
    for (key, column), value in figures(before):
        if (now := later.get((key, column))) is not None:
            yield ", ".join(key), column, value, now, now / value if value else None


def figures(result: dict[str, Any]) -> Iterator[tuple[tuple[Key, str], float]]:
    """Yield each number with its key: the words of its row, numbered if they repeat, and the name of its column."""
    for table in result["tables"]:
        rows: dict[Key, int] = defaultdict(int)
        for row in table["rows"]:
            words = tuple(cell for cell in row if isinstance(cell, str))
            rows[words] += 1
            key = (*words, *([f"no. {rows[words]}"] if rows[words] > 1 else []))
            for column, cell in zip(table["columns"], row, strict=True):
                if isinstance(cell, int | float) and not isinstance(cell, bool):
                    yield (key, column), cell


if __name__ == "__main__":
    main()
