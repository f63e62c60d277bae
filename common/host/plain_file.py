"""Opening files in folders in which others can write, too: keys and runs may belong to another user than this process.

Whoever can write in a folder can put a link, a pipe or a device in place of any file in it. A process that follows it
writes over a file of its own user's, shows one to others, or waits forever. Windows has neither of O_NOFOLLOW and
O_NONBLOCK; making a link is a privilege there.
"""

import errno
import os
import stat
from pathlib import Path
from typing import IO

from common.errors import ConfigurationError

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)


def create(path: Path) -> IO[bytes]:
    """Create a new file, in place of a file or link of this name; raises OSError.

    If somebody puts another one there at this moment, it is an error, not where the bytes go.
    """
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | _BINARY, 0o666), "wb")


def open_or_create(path: Path) -> tuple[IO[bytes], bool]:
    """Open a file for writing without changing what it holds; return it, and whether it is new.

    Raises OSError; ConfigurationError for a link, and for anything else that is no regular file.
    """
    flags = os.O_RDWR | NOFOLLOW | _BINARY
    try:
        return os.fdopen(os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666), "r+b"), True
    except FileExistsError:
        _require_regular(path, path.lstat().st_mode)
        return os.fdopen(os.open(path, flags), "r+b"), False


def _require_regular(path: Path, mode: int) -> None:
    """Raise IsADirectoryError for a folder, ConfigurationError for a link, a pipe, a device or a socket."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise ConfigurationError(f"{path}: cannot be used: it is a link, a pipe or a device, not a regular file")
