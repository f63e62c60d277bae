"""Files that a power cut never leaves half written."""

import errno
import os
from pathlib import Path
from typing import IO

from common.host import plain_file


def write_synced(path: Path, data: bytes) -> None:
    """Write a file, in place of a file or link of this name, and wait until it is on the disk; raises OSError."""
    with plain_file.create(path) as file:
        write_to_disk(file, data)


def write_to_disk(file: IO[bytes], data: bytes) -> None:
    """Write to an open file and wait until it is on the disk; raises OSError."""
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk.

    Does nothing where folders cannot be opened (Windows), or not synchronized (a folder that VirtualBox shares).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # fsync(2): the file system cannot do it
            raise
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, *, keep_access: bool = False) -> None:
    """Replace the content of `path` in one step.

    Raises OSError: the old content is unchanged, or the new one is there and only its name may be lost in a power cut.

    keep_access: the new file has the owner and mode of the old one, whatever umask and user this process has; a file
    that did not exist gets the owner of its folder, and everyone who has access to the folder can read it.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with plain_file.create(partial) as file:
            write_to_disk(file, data)
            if keep_access:
                _give_access(file, path)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def give_owner(file: IO[bytes], like: Path) -> None:
    """Give a new file the owner of the file `like`; if there is none, that of the folder for it. Raises OSError.

    `file` is open, since its name may lead elsewhere by now: whoever owns the folder can put a link there.
    """
    model = like.stat() if like.exists() else like.parent.stat()
    if os.name == "posix" and (model.st_uid, model.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(file.fileno(), model.st_uid, model.st_gid)


def _give_access(file: IO[bytes], path: Path) -> None:
    give_owner(file, path)
    if os.name == "posix":  # Windows has modes only in name
        os.fchmod(file.fileno(), path.stat().st_mode & 0o777 if path.exists() else 0o644)
