"""Output of every benchmark, printed and (with --json) written to a file: the machine, and tables."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import statistics
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from common.host.versions import commit

ROOT = Path(__file__).parents[1]
Cell = str | int | float | bool | None
_shown: list[dict[str, Any]] = []
"""Tables shown so far, in order."""
_kept: list[tuple[Path, str, Sequence[str]]] = []
"""File for --json, with the benchmark and its arguments; empty without --json."""


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table under a title; the first column is aligned to the left, the others to the right."""
    rows = [list(row) for row in rows]
    _shown.append({"title": title, "columns": list(columns), "rows": rows})
    lines = [list(columns), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    print(f"\n{title}")
    for first, *others in lines:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print("  ".join((first.ljust(widths[0]), *cells)).rstrip())
    sys.stdout.flush()
    _write()


def machine() -> None:
    """Print the conditions under which the figures below hold: date, machine, versions and commit."""
    it = conditions()
    versions = ", ".join(f"{name} {number}" for name, number in it["versions"].items())
    cores = it["machine"]["cores"]
    where = f"{cores} core{'' if cores == 1 else 's'} ({platform.machine()})"
    print(f"{datetime.now():%Y-%m-%d %H:%M}, {where}, {versions}, commit {it['commit'][:8] or 'unknown'}", flush=True)


def keep(file: Path, benchmark: str, arguments: Sequence[str]) -> None:
    """Write all tables, shown so far and from now on, with `conditions`, to a file as JSON for `python -m benchmarks
    compare`. It is written after each table, because the next part may fail."""
    _kept[:] = [(file, benchmark, arguments)]
    _write()


def _write() -> None:
    for file, benchmark, arguments in _kept:
        result = {"benchmark": benchmark, "arguments": list(arguments), **conditions(), "tables": _shown}
        file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


@functools.cache
def conditions() -> dict[str, Any]:
    """Return the conditions under which this process's figures hold, as they were at the first call.

    "commit" is empty outside a clone of the repository, and ends with -dirty if files were changed since.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": {"cores": cores, "processor": _processor(), "system": platform.platform()},
        "versions": {"python": platform.python_version(), **{one: _version(one) for one in ("torch", "a3cd")}},
        "commit": commit(ROOT),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are not None; None if there are none."""
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case float():
            return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}" if abs(cell) < 1 else f"{cell:.1f}"
        case int():
            return f"{cell:,}"
        case str():
            return cell
