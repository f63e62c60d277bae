"""`a3cd doctor`: check this machine and the connection to a learner, and say how to mend what is wrong."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from common.errors import EXIT_CONFIGURATION, EXIT_DONE
from common.host.security.access import LearnerEndpoint
from deploy.cli.doctor import connectivity, machine, software
from deploy.cli.doctor.finding import Finding

__all__ = ["Finding", "exit_code", "run", "show"]

_MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "bad": ("BAD", "bold red")}


def run(learner: LearnerEndpoint | None, port: int, runs: Path = Path("runs")) -> list[Finding]:
    """Run every check, which takes a few seconds.

    learner: also check the connection to it. port: where a learner here would listen. runs: where run folders go.
    """
    findings = software.look() + machine.look(port, runs)
    return findings if learner is None else findings + connectivity.look(learner)


def show(findings: list[Finding], console: Console | None = None) -> None:
    """Print a table on stdout (or `console`): a row for each finding, and below it how to mend it."""
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


def exit_code(findings: list[Finding]) -> int:
    """0, or 78 when anything is bad."""
    return EXIT_CONFIGURATION if any(finding.state == "bad" for finding in findings) else EXIT_DONE
