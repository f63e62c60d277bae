"""An output that takes nothing, as stderr on a full disk, on a terminal that is gone, or before a reader that is."""

from __future__ import annotations

import errno
import os


class BrokenOutput:
    encoding = "utf-8"

    def __init__(self, number: int = errno.EIO, *, terminal: bool = False) -> None:
        self.error: OSError | None = OSError(number, os.strerror(number))
        self.written: list[str] = []
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        if self.error is not None:
            raise self.error
        self.written.append(text)
        return len(text)

    def flush(self) -> None:
        if self.error is not None:
            raise self.error
