from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from common.errors import EXIT_CONFIGURATION, EXIT_DONE
from deploy.cli.doctor import Finding, exit_code, run, show

GOOD = Finding("python", "ok", "3.11")
WARN = Finding("gpu", "warn", "no CUDA [red]here[/red]", "install it")
BAD = Finding("disk", "bad", "cannot be written to", "go elsewhere")


def test_the_way_is_looked_at_only_when_there_is_a_learner(start_learner: Callable[..., Any], tmp_path: Path) -> None:
    alone = run(None, 40_000, tmp_path)
    assert {"python", "disk"} <= {finding.name for finding in alone}
    assert "learner's name" not in {finding.name for finding in alone}
    assert "learner's name" in {finding.name for finding in run(start_learner().access, 40_000, tmp_path)}


def test_the_table_says_how_to_mend() -> None:
    console = Console(width=80, file=StringIO(), record=True)
    show([GOOD, WARN, BAD], console)
    assert [row.split() for row in console.export_text().splitlines()] == [
        ["ok", "python", "3.11"],
        ["warn", "gpu", "no", "CUDA", "[red]here[/red]"],
        ["->", "install", "it"],
        ["BAD", "disk", "cannot", "be", "written", "to"],
        ["->", "go", "elsewhere"],
    ]


def test_the_table_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    show([GOOD])
    assert capsys.readouterr().out.split() == ["ok", "python", "3.11"]


def test_only_what_is_bad_fails() -> None:
    assert (exit_code([GOOD, WARN]), exit_code([GOOD, BAD, WARN])) == (EXIT_DONE, EXIT_CONFIGURATION)
