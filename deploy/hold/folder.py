"""Where the holder of a launcher is found on its host: a private folder with its socket, locked while it lives.

Under /tmp, since it must be of this host alone (a home may be shared by many) and outlive the login (/run/user does
not). The lock is inherited by the holder and its actors: as long as one of them lives there is no second holder.
Locking the folder also keeps systemd-tmpfiles from cleaning it away. The host's own name is in the folder's, for hosts
that share a /tmp after all (containers, network namespaces); what the launcher calls the host is not, since it may be
called otherwise tomorrow.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import socket
import stat
import sys
from pathlib import Path

from common.errors import ConfigurationError, UnavailableError

BASE = Path("/tmp")
_BACKLOG = 8


def place(launcher: str, learner: str, base: Path = BASE) -> Path:
    """The folder of this launcher's holder for this learner, made if it is not there.

    Raises ConfigurationError if it is not ours alone.
    """
    if sys.platform == "win32":
        raise ConfigurationError("a3cd hold needs Unix sockets: start actors on Windows by hand")
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", launcher)[:32]
    key = hashlib.sha256(f"{launcher} {learner} {platform.node()}".encode()).hexdigest()[:12]
    user = base / f"a3cd-{os.getuid()}"
    folder = user / f"{plain}-{key}"
    for path in (user, folder):
        path.mkdir(mode=0o700, exist_ok=True)
        _check_private(path)
    return folder


def _check_private(path: Path) -> None:
    if sys.platform != "win32":
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise ConfigurationError(f"{path} must be a folder of this user with mode 0700; move it away")


def socket_path(folder: Path) -> str:
    """Where the holder listens."""
    return str(folder / "socket")


def log_path(folder: Path) -> Path:
    """What the holder and its actors say."""
    return folder / "log"


def connect(folder: Path) -> socket.socket | None:
    """To the living holder; None: there is none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(socket_path(folder))
    except OSError as error:
        connection.close()
        if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN):
            return None
        raise UnavailableError(f"{socket_path(folder)}: {error.strerror}") from None
    return connection


def claim(folder: Path) -> int | None:
    """The lock, as a descriptor that holds it while it is open anywhere; None: a holder or an actor of one lives."""
    if sys.platform == "win32":
        return None
    import fcntl

    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def listen(folder: Path) -> socket.socket:
    """In the place of a holder that is dead; only for who has the lock."""
    Path(socket_path(folder)).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(socket_path(folder))
    listener.listen(_BACKLOG)
    return listener
