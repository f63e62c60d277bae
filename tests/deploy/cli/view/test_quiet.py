import sys
from io import StringIO
from typing import TextIO, cast

import click
from rich.console import Console

from common.run.status import RunStatus
from deploy.cli.view.progress import Panel, open_view
from deploy.cli.view.quiet import quiet
from tests.helpers.broken_output import BrokenOutput
from tests.helpers.status import run_status


def test_what_can_be_written_is() -> None:
    stream = StringIO()
    click.echo("hello", file=quiet(stream))
    Console(file=quiet(stream)).print("there")
    assert stream.getvalue() == "hello\nthere\n"


def test_what_cannot_be_written_is_dropped_and_the_next_line_is_tried_again() -> None:
    stream = BrokenOutput()
    one = quiet(cast("TextIO", stream))
    print("lost", file=one, flush=True)
    stream.error = None
    print("written", file=one, flush=True)
    assert stream.written == ["written", "\n"]


def test_one_that_was_closed_at_the_start_takes_nothing() -> None:
    print("lost", file=quiet(None), flush=True)


def test_one_that_is_closed_takes_nothing() -> None:
    stream = StringIO()
    stream.close()
    print("lost", file=quiet(stream), flush=True)


def test_a_panel_on_a_terminal_that_is_gone_is_drawn_for_nobody() -> None:
    status: RunStatus = run_status()
    with open_view(quiet(cast("TextIO", BrokenOutput(terminal=True)))) as opened:
        assert isinstance(opened, Panel)
        opened.show(status)
        opened.say("hello")
        print("a log line", file=sys.stderr)
