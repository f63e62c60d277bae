"""What ssh runs on a host: finds the holder or starts it, and carries lines between it and the launcher.

The relay ends with its connection, the holder and its actors do not.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from common.errors import EXIT_CONFIGURATION, EXIT_DONE, A3cdError, UnavailableError, WireError
from deploy.hold import folder as folders
from deploy.hold.messages import MAX_LINE, PROTOCOL, Greeting, Refused, decode, encode

REACH_SECONDS = 15.0
"""For a holder that is on its way out to be gone, with its actors."""
_AGAIN_SECONDS = 0.1
_CHUNK = 65536
_HOLDER = (sys.executable, "-P", "-m", "deploy.cli.command", "hold")


def run(base: Path = folders.BASE, holder: Sequence[str] = ()) -> int:
    """From the greeting on standard input to the end of either side; `holder`: another program than `a3cd hold`."""
    raw = _first_line(0)
    try:
        greeting = _greeting(raw)
        folder = folders.place(greeting.launcher, greeting.learner, base)
        connection, first = _reach(folder, raw, holder or _HOLDER)
    except A3cdError as error:
        os.write(1, encode(Refused(str(error))))
        return EXIT_CONFIGURATION
    with connection:
        threading.Thread(target=_up, args=(connection,), name="up", daemon=True).start()
        _down(connection, first)
    return EXIT_DONE


def _first_line(descriptor: int) -> bytes:
    """Byte by byte, so that nothing of what follows is taken."""
    raw = b""
    while not raw.endswith(b"\n") and len(raw) < MAX_LINE:
        byte = os.read(descriptor, 1)
        if not byte:
            break
        raw += byte
    return raw


def _greeting(raw: bytes) -> Greeting:
    line = decode(raw)
    if not isinstance(line, Greeting):
        raise WireError("a launcher begins with a greeting")
    if line.protocol != PROTOCOL:
        raise WireError(f"the a3cd here speaks protocol {PROTOCOL} of `hold`, the launcher {line.protocol}")
    return line


def _reach(folder: Path, greeting: bytes, holder: Sequence[str]) -> tuple[socket.socket, bytes]:
    """A connection to the one holder there is, and the first it says: one that is ending says nothing."""
    until = time.monotonic() + REACH_SECONDS
    while time.monotonic() < until:
        connection = folders.connect(folder)
        if connection is None:
            lock = folders.claim(folder)
            if lock is not None:
                _spawn(folder, lock, holder)
                continue
        else:
            first = _greet(connection, greeting)
            if first:
                return connection, first
        time.sleep(_AGAIN_SECONDS)
    raise UnavailableError(f"the holder in {folder} does not answer, and is not gone; see {folders.log_path(folder)}")


def _greet(connection: socket.socket, greeting: bytes) -> bytes:
    """What it answers; nothing, and closed, if it was ending."""
    try:
        connection.settimeout(REACH_SECONDS)
        connection.sendall(greeting)
        first = connection.recv(_CHUNK)
        connection.settimeout(None)
    except OSError:
        first = b""
    if not first:
        connection.close()
    return first


def _spawn(folder: Path, lock: int, holder: Sequence[str]) -> None:
    """Out of reach of this connection's end; it inherits the lock and the socket that it listens on."""
    with folders.listen(folder) as listener:
        subprocess.Popen(
            [*holder, "--serve", str(folder), "--lock", str(lock), "--listener", str(listener.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock, listener.fileno()),
            start_new_session=True,
            cwd="/",
        )
    os.close(lock)


def _up(connection: socket.socket) -> None:
    """Standard input to the holder; its end is the connection's."""
    try:
        while raw := os.read(0, _CHUNK):
            connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the holder is gone, which the other direction notices


def _down(connection: socket.socket, raw: bytes) -> None:
    try:
        while raw:
            os.write(1, raw)
            raw = connection.recv(_CHUNK)
    except OSError:
        pass  # the launcher is gone
