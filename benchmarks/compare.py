"""Two results of one benchmark side by side: `python -m benchmarks compare BEFORE.json AFTER.json`.

Rows of the same name in tables of the same title are compared: each number is shown with the ratio of after to before,
and each word that changed. A row that only one of the results has is named too. Figures from two machines, or from two
days on one machine, cannot be compared: measure both within an hour.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from benchmarks import tables
from benchmarks.tables import Cell

COLUMNS = ("", "figure", "before", "after", "after / before")
Table = dict[str, Any]
"""A table as `tables.show` keeps it: title, columns and rows."""


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
        print(f"{'':7} {' '.join(result['arguments']) or 'no options'}")
    for title, rows in compared(results[0]["tables"], results[1]["tables"]).items():
        tables.show(f"{results[0]['benchmark']}: {title}", COLUMNS, rows)


def compared(before: Sequence[Table], after: Sequence[Table]) -> dict[str, list[tuple[Cell, ...]]]:
    """Return rows of COLUMNS by the title of their table."""
    then, now = (dict(zip(numbered(one["title"] for one in some), some, strict=True)) for some in (before, after))
    missing: Table = {"columns": [], "rows": []}
    return {title: list(_compared(then.get(title, missing), now.get(title, missing))) for title in then | now}


def _compared(before: Table, after: Table) -> Iterator[tuple[Cell, ...]]:
    width = names(before["rows"], after["rows"])
    then, now = named(before, width), named(after, width)
    for name in then | now:
        if name not in now or name not in then:
            yield name, "only before" if name in then else "only after", None, None, None
            continue
        for column in then[name] | now[name]:
            old, new = then[name].get(column), now[name].get(column)
            if _is_number(old) and _is_number(new):
                yield name, column, old, new, new / old if old else None
            elif old != new:
                yield name, column, old, new, None


def names(*of: Sequence[Sequence[Cell]]) -> int:
    """Return how many columns from the left name a row: the fewest that tell all rows of each table apart.

    Not all words, because some are results, as "3/3" is: a row that got worse would lose its partner. A column with
    fractions was measured, and ends the names. Rows that nothing before it tells apart have the first column's name.
    """
    cells = [row for rows in of for row in rows]
    shortest = min(map(len, cells), default=0)
    most = next((n for n in range(shortest) if any(isinstance(row[n], float) for row in cells)), shortest)
    return next(
        (n for n in range(1, most + 1) if all(len({*_starts(rows, n)}) == len(rows) for rows in of)), min(1, most)
    )


def named(table: Table, width: int) -> dict[str, dict[str, Cell]]:
    """Return each row's figures by the name of their column, by the row's name."""
    rows = numbered(", ".join(map(str, start)) for start in _starts(table["rows"], width))
    columns = list(numbered(table["columns"]))[width:]
    return {name: dict(zip(columns, row[width:], strict=True)) for name, row in zip(rows, table["rows"], strict=True)}


def numbered(words: Iterable[str]) -> Iterator[str]:
    """Yield the words; one that was there before gets a number."""
    seen: Counter[str] = Counter()
    for word in words:
        seen[word] += 1
        yield word if seen[word] == 1 else f"{word}, no. {seen[word]}"


def _starts(rows: Sequence[Sequence[Cell]], width: int) -> Iterator[tuple[Cell, ...]]:
    return (tuple(row[:width]) for row in rows)


def _is_number(cell: Cell) -> TypeGuard[int | float]:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


if __name__ == "__main__":
    main()
