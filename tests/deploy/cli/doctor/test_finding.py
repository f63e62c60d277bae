from io import StringIO

import pytest
from rich.console import Console

from common.errors import EXIT_CONFIGURATION, EXIT_DONE
from deploy.cli.doctor.finding import Finding, show

GOOD = Finding("python", "ok", "3.11")
WARN = Finding("gpu", "warn", "no CUDA [red]here[/red]", "install it")
BAD = Finding("disk", "bad", "cannot be written to", "go elsewhere")


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
    assert (show([GOOD, WARN]), show([GOOD, BAD, WARN])) == (EXIT_DONE, EXIT_CONFIGURATION)
