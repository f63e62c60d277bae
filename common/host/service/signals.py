"""Signals as something a poller can wait for: the first asks the daemon to stop, a second ends it at once."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import ExitStack
from types import FrameType
from typing import Self

from common.errors import EXIT_DONE, EXIT_SIGINT, EXIT_SIGTERM

ECHO_SECONDS = 0.2
"""A repetition so soon is the same request: timeout(1), for one, signals its child and then the whole group."""
_STOP = frozenset({signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGBREAK", signal.SIGTERM)})
"""SIGBREAK is how Windows asks a process in a group of its own."""
_HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)


class Signals:
    """Context manager, main thread only (`ValueError` elsewhere); register it with a `zmq.Poller` as it is.

    SIGHUP (the terminal was closed) asks to stop like SIGTERM; where it was ignored from the start (nohup) it stays so.
    """

    def __init__(self) -> None:
        """Nothing is watched yet."""
        self.requested: int | None = None
        self._requested_at = 0.0
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        """Installs the handlers and the wake-up descriptor."""
        with ExitStack() as undo:
            for number in self._watched():
                undo.callback(signal.signal, number, signal.signal(number, self._note) or signal.SIG_DFL)
            self._reader, writer = socket.socketpair()
            for end in (self._reader, writer):
                undo.callback(end.close)
                end.setblocking(False)
            undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Puts back what was there before."""
        self._undo.close()

    @staticmethod
    def _watched() -> set[signal.Signals]:
        hangup = set() if _HANGUP is None or signal.getsignal(_HANGUP) is signal.SIG_IGN else {_HANGUP}
        return {*_STOP, *hangup}

    def _note(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.requested is None:
            self.requested, self._requested_at = number, now
        elif number in _STOP and now - self._requested_at > ECHO_SECONDS:
            os._exit(_exit_code(number))

    @property
    def exit_code(self) -> int:
        """What a process that was asked to stop ends with: 130 or 143; 0 if it was not asked."""
        return EXIT_DONE if self.requested is None else _exit_code(self.requested)

    def fileno(self) -> int:
        """Readable after a signal, until `drain`."""
        return self._reader.fileno()

    def drain(self) -> None:
        """Makes the descriptor quiet again; `requested` stays."""
        try:
            while self._reader.recv(256):
                pass
        except BlockingIOError:
            pass


def _exit_code(number: int) -> int:
    return EXIT_SIGINT if number == signal.SIGINT else EXIT_SIGTERM
