"""The result of one check, and the table of all."""

from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from common.errors import EXIT_CONFIGURATION, EXIT_DONE

_MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "bad": ("BAD", "bold red")}


@dataclass(frozen=True)
class Finding:
    """What was checked, the result, and for `warn` and `bad` how to mend it.

    bad: a3cd will not run here as asked. warn: it will, but something is missing or slower than it could be.
    """

    name: str
    state: Literal["ok", "warn", "bad"]
    text: str
    mend: str = ""


def show(findings: list[Finding], console: Console | None = None) -> int:
    """Print a row for each finding, and below it how to mend it; the exit code is 78 when anything is bad, else 0."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column(overflow="fold")
    for finding in findings:
        mark, style = _MARKS[finding.state]
        table.add_row(Text(mark, style=style), finding.name, Text(finding.text))
        if finding.mend:
            table.add_row("", "", Text(f"-> {finding.mend}", style=style))
    (console or Console()).print(table)
    return EXIT_CONFIGURATION if any(finding.state == "bad" for finding in findings) else EXIT_DONE
