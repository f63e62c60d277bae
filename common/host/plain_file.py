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

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_ROOT = 0
_IS_LINK = (errno.ELOOP, errno.EMLINK)
"""What opening a link with O_NOFOLLOW fails with; the latter in FreeBSD."""


def create(path: Path) -> IO[bytes]:
    """Create a new file, in place of a file or link of this name; raises OSError.

    If somebody puts another one there at this moment, it is an error, not where the bytes go.
    """
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY, 0o666), "wb")


def open_or_create(path: Path) -> tuple[IO[bytes], bool]:
    """Open a file for writing without changing what it holds; return it, and whether it is new.

    Raises OSError; ConfigurationError for a link, and for anything else that is no regular file.
    """
    flags = os.O_RDWR | _NOFOLLOW | _BINARY
    try:
        return os.fdopen(os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666), "r+b"), True
    except FileExistsError:
        _require_regular(path, path.lstat().st_mode)
        return os.fdopen(os.open(path, flags), "r+b"), False


def open_to_read(path: Path) -> IO[bytes]:
    """Open a regular file for reading, without waiting.

    A link is followed if it was made by root, by this process's user or by the user whose file it leads to. Another
    user's link could lead to a file that only this process's user may read.
    Raises OSError; ConfigurationError for another user's link, and for what is no regular file.
    """
    _require_regular(path, path.stat().st_mode)  # opening alone can start something in a device
    flags = os.O_RDONLY | _NO_WAIT | _BINARY
    try:
        descriptor, link = os.open(path, flags | _NOFOLLOW), False
    except OSError as error:
        if error.errno not in _IS_LINK:
            raise
        descriptor, link = os.open(path, flags), True
    file = os.fdopen(descriptor, "rb")
    try:
        found = os.fstat(descriptor)
        _require_regular(path, found.st_mode)
        if link:
            _require_own_link(path, found.st_uid)
    except BaseException:
        file.close()
        raise
    return file


def read(path: Path, most: int) -> bytes:
    """Return the content of a file of at most `most` bytes; raises as `open_to_read`."""
    with open_to_read(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ConfigurationError(f"{path}: cannot be read: it has more than {most} bytes")
    return data


def _require_own_link(path: Path, owner: int) -> None:
    """Raise ConfigurationError for a link, followed to a file of the user `owner`, that is not to be followed.

    Looked at only after the file was opened: if its name was given to something else meanwhile, that is refused, too.
    """
    link = path.lstat()
    if not (stat.S_ISLNK(link.st_mode) and link.st_uid in (_ROOT, os.geteuid(), owner)):
        raise ConfigurationError(f"{path}: cannot be used: it is another user's link to a file that is not theirs")


def _require_regular(path: Path, mode: int) -> None:
    """Raise IsADirectoryError for a folder, ConfigurationError for a link, a pipe, a device or a socket."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise ConfigurationError(f"{path}: cannot be used: it is a link, a pipe or a device, not a regular file")
