"""Files that a power cut never leaves half written."""

import os
from pathlib import Path


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk; raises OSError."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk; does nothing where folders cannot be opened (Windows)."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Replace the content of `path` in one step; raises OSError, with the old content unchanged."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        write_synced(partial, data)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
