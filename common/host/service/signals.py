"""Signals that a poller can wait for: the first asks the daemon to stop, a second ends it at once."""

import os
import signal
import socket
import time
from contextlib import ExitStack, suppress
from types import FrameType
from typing import Self

from common.errors import EXIT_DONE, EXIT_SIGINT, EXIT_SIGTERM

ECHO_SECONDS = 0.2
"""A second signal within this time is the same request: timeout(1) signals its child and then the whole group."""
_STOP = frozenset({signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGBREAK", signal.SIGTERM)})
"""SIGBREAK is sent to a process in a group of its own on Windows."""
_HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)


class Signals:
    """Context manager for the main thread (ValueError in others); can be registered with a `zmq.Poller`.

    SIGHUP (the terminal was closed) asks to stop like SIGTERM, unless it was ignored at the start (nohup).
    """

    def __init__(self) -> None:
        self.requested: int | None = None
        self._requested_at = 0.0
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        hangup = set() if _HANGUP is None or signal.getsignal(_HANGUP) is signal.SIG_IGN else {_HANGUP}
        with ExitStack() as undo:
            for number in {*_STOP, *hangup}:
                undo.callback(signal.signal, number, signal.signal(number, self._note) or signal.SIG_DFL)
            self._reader, self._writer = socket.socketpair()
            for end in (self._reader, self._writer):
                undo.callback(end.close)
                end.setblocking(False)
            undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def _note(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.requested is None:
            self.requested, self._requested_at = number, now
        elif number in _STOP and now - self._requested_at > ECHO_SECONDS:
            os._exit(_exit_code(number))

    @property
    def exit_code(self) -> int:
        """130 or 143 after a signal, else 0."""
        return EXIT_DONE if self.requested is None else _exit_code(self.requested)

    def fileno(self) -> int:
        """Readable after a signal or `wake`, until `drain`."""
        return self._reader.fileno()

    def wake(self) -> None:
        """Wake the poller without a signal; any thread may call this."""
        with suppress(OSError):  # full: the poller is awake; closed: nobody waits
            self._writer.send(b"\0")

    def drain(self) -> None:
        """Empty the descriptor; `requested` stays."""
        with suppress(BlockingIOError):
            while self._reader.recv(256):
                pass


def _exit_code(number: int) -> int:
    return EXIT_SIGINT if number == signal.SIGINT else EXIT_SIGTERM
