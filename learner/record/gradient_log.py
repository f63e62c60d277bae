"""Writes the record of what was applied into files, which `learner.record.gradient_history` reads.

    gradients/EPOCH-NUMBER.log     whole frames, one after the other, the first of which is `Began`
    frame: u32 length of the entry, u32 length of the body, u32 CRC-32 of these two, u32 CRC-32 of entry and body
           (little endian); the entry (msgpack); the body as it arrived

The two checksums distinguish a frame that was being written when the learner died from one that was altered later.
"""

import contextlib
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from common.host.atomic_file import sync_folder
from common.wire.frames import Buffer
from learner.applied import AnyEntry, Began, Saved, Stepped

SEGMENT_BYTES = 64 * 2**20
"""Length from which on a file is not continued: the next step begins a new one."""
MOST_OPEN = 8
"""Files that may wait, open, for a checkpoint to bring them to the disk; beyond that it is done without one."""
MIB = 2**20
FRAME = struct.Struct("<IIII")
_LENGTHS = struct.Struct("<II")
_NAME = re.compile(r"(\d{6,})-(\d{6,})\.log")


def frame_head(entry: bytes, body: Buffer) -> bytes:
    lengths = _LENGTHS.pack(len(entry), memoryview(body).nbytes)
    return lengths + _LENGTHS.pack(zlib.crc32(lengths), zlib.crc32(body, zlib.crc32(entry)))


def segments(folder: Path) -> list[tuple[int, int, Path]]:
    """Return epoch, number within it, and path of each file of a record, oldest first; none without the folder."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted((int(name[1]), int(name[2]), path) for path in paths if (name := _NAME.fullmatch(path.name)))


class GradientLog:
    """Appends the entries of one epoch; the run folder must be locked by this process.

    The operating system has each entry before `append` returns, so it survives the learner's death; from the next
    checkpoint on, it also survives a power failure. A disk that takes no more ends the recording, not the run.
    """

    def __init__(self, folder: Path, *, keep_mib: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        """`folder`: made with the first entry; `keep_mib`: 0 keeps everything."""
        self._folder = folder
        self._keep = keep_mib * MIB
        self._segment_bytes = segment_bytes
        self._encoder = msgspec.msgpack.Encoder()
        self._files: list[int] = []
        """Descriptors of open files: the last is being written; the others may not be on the disk yet."""
        self._written = 0
        self._number = -1
        self._began: Began | None = None
        self.failed = False

    def append(self, entry: AnyEntry, body: Buffer = b"") -> None:
        """Append an entry. Raises OSError once, when the disk takes no more; from then on nothing is recorded."""
        if self.failed:
            return
        with self._ending():
            match entry:
                case Began():
                    self._folder.mkdir(exist_ok=True)
                    self._began = entry
                    self._next_segment()
                case Stepped():
                    self._write(entry, body)
                    self._stepped(entry)
                case _:
                    self._write(entry, body)

    def saved(self, version: int) -> Callable[[], None] | None:
        """Note that a checkpoint is made; raises what `append` raises.

        Return a function to call, on any thread, before the checkpoint is written: it brings all entries up to here to
        the disk, and raises OSError. None: nothing is recorded.
        """
        if not self._files:
            return None
        with self._ending():
            self._write(Saved(version=version), b"")
            copies = [os.dup(file) for file in self._files]
            self._close_first(len(self._files) - 1)
        return lambda: _sync(copies, self._folder)

    def close(self) -> None:
        """Close all files. An error of the disk only now concerns entries that no checkpoint relies on."""
        while self._files:
            with contextlib.suppress(OSError):
                os.close(self._files.pop())

    def _close_first(self, count: int) -> None:
        for file in self._files[:count]:
            del self._files[0]
            os.close(file)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """Return a context in which an OSError ends the recording."""
        try:
            yield
        except OSError:
            self.failed = True
            self.close()
            raise

    def _stepped(self, entry: Stepped) -> None:
        assert self._began is not None
        self._began = msgspec.structs.replace(
            self._began, version=entry.version, frames=entry.frames, checksum=entry.checksum
        )
        if self._written >= self._segment_bytes:
            self._next_segment()

    def _next_segment(self) -> None:
        """Begin the next file; called only between two steps, so that each file can be read on its own."""
        assert self._began is not None
        self._remove_old()
        self._number += 1
        path = self._folder / f"{self._began.epoch:06d}-{self._number:06d}.log"
        self._files.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644))
        while len(self._files) > MOST_OPEN:
            os.fsync(self._files[0])
            self._close_first(1)
        self._written = 0
        self._write(self._began, b"")

    def _remove_old(self) -> None:
        """Remove the oldest files until there is room for another; kept checkpoints need the newer ones."""
        if not self._keep:
            return
        sizes = [(path, path.stat().st_size) for _, _, path in segments(self._folder)]
        total, left = sum(size for _, size in sizes), len(sizes)
        for path, size in sizes:
            if total + self._segment_bytes <= self._keep:
                break
            path.unlink()
            total, left = total - size, left - 1
        self._close_first(max(0, len(self._files) - left))  # those removed: an open file keeps its place on the disk

    def _write(self, entry: AnyEntry, body: Buffer) -> None:
        """Write a whole frame; raises OSError, with nothing of it written."""
        packed = self._encoder.encode(entry)
        parts = [frame_head(packed, body), packed, body]
        size = FRAME.size + len(packed) + memoryview(body).nbytes
        file = self._files[-1]
        try:
            written = os.writev(file, parts)
            if written < size:  # the disk is nearly full
                rest = memoryview(b"".join(parts))
                while written < size:
                    written += os.write(file, rest[written:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, self._written)
            raise
        self._written += size


def _sync(files: list[int], folder: Path) -> None:
    """Bring the files to the disk, and close them."""
    with contextlib.ExitStack() as stack:
        for file in files:
            stack.callback(os.close, file)
        for file in files:
            os.fsync(file)
        sync_folder(folder)
