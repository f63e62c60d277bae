"""What every benchmark of whole runs prints: one line on the machine, one table."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
Cell = str | int | float | bool | None


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Prints a table under a title; the first column is aligned to the left, the others to the right."""
    lines = [list(columns), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    print(f"\n{title}")
    for first, *others in lines:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print("  ".join((first.ljust(widths[0]), *cells)).rstrip())
    sys.stdout.flush()


def machine() -> None:
    """Prints what the figures below hold for."""
    it = conditions()
    versions = ", ".join(f"{name} {number}" for name, number in it["versions"].items())
    print(f"{it['time'].replace('T', ' ')}, {it['cores']} cores ({it['machine']}), {versions}", flush=True)


def conditions() -> dict[str, Any]:
    """What figures of this moment hold for; "commit" only in a clone of the repository, "+" for one with changes."""
    return {
        "time": f"{datetime.now():%Y-%m-%dT%H:%M}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "machine": platform.machine(),
        "versions": {"python": platform.python_version(), **{one: version(one) for one in ("torch", "a3cd")}},
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain") else ""),
    }


def _git(*words: str) -> str:
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def median(values: Iterable[float | None]) -> float | None:
    """Of those that are there; None where none is."""
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
