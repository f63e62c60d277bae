"""An output that nobody may depend on: what it does not take is dropped."""

import sys
from contextlib import suppress
from io import StringIO
from typing import Any, TextIO, cast

import click


def quiet(stream: TextIO | None) -> TextIO:
    """`stream`, except that errors of writing are ignored; each write is a new attempt. None: closed at the start.

    For what is told of work that goes on for hours: the terminal may be closed, the disk of the log may be full for a
    while, and `2>&1 | head` reads the first lines only. The work must not end with them.
    """
    return cast("TextIO", _Quiet(_Nowhere() if stream is None else stream))


def tell(line: str) -> None:
    """Print a line on stderr, which may not take it."""
    click.echo(line, file=quiet(sys.stderr))


class _Nowhere(StringIO):
    def write(self, text: str) -> int:
        return len(text)


class _Quiet:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: it is closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()
