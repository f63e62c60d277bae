"""The record of what was applied, as files: written here, read by `learner.record.gradient_history`.

    gradients/EPOCH-NUMBER.log     whole frames, one after the other, the first of which is `Began`
    frame: u32 length of the entry, u32 length of the body, u32 CRC-32 of these two, u32 CRC-32 of entry and body
           (little endian); the entry (msgpack); the body as it came

The two checksums tell a frame that was being written when the learner died from one that was altered later.
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
"""A longer file is not written on: the next one begins."""
MIB = 2**20
FRAME = struct.Struct("<IIII")
_LENGTHS = struct.Struct("<II")
_NAME = re.compile(r"(\d{6,})-(\d{6,})\.log")


def frame_head(entry: bytes, body: Buffer) -> bytes:
    lengths = _LENGTHS.pack(len(entry), memoryview(body).nbytes)
    return lengths + _LENGTHS.pack(zlib.crc32(lengths), zlib.crc32(body, zlib.crc32(entry)))


def segments(folder: Path) -> list[tuple[int, int, Path]]:
    """Epoch, number in it, and path of every file of a record, oldest first; none if there is no such folder."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted((int(name[1]), int(name[2]), path) for path in paths if (name := _NAME.fullmatch(path.name)))


class GradientLog:
    """Appends the entries of one epoch; the run folder must be locked by this process.

    Every entry is with the operating system before `append` returns, and so outlives the learner; it outlives the
    machine's power from the next checkpoint on. A disk that takes no more ends the recording, not the run.
    """

    def __init__(self, folder: Path, *, keep_mib: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        """`folder` is made with the first entry; 0 for `keep_mib` keeps everything."""
        self._folder = folder
        self._keep = keep_mib * MIB
        self._segment_bytes = segment_bytes
        self._encoder = msgspec.msgpack.Encoder()
        self._files: list[int] = []
        """Descriptors: the last is written; the others may not be on the disk yet."""
        self._written = 0
        self._number = -1
        self._began: Began | None = None
        self.failed = False

    def append(self, entry: AnyEntry, body: Buffer = b"") -> None:
        """Raises OSError once, when the disk takes no more; from then on nothing is recorded."""
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
        """To be called when a checkpoint is made; raises like `append`.

        Returns what is to be called before the checkpoint is written, on any thread: then all that it stands on is on
        the disk. It raises OSError.
        """
        if not self._files:
            return None
        with self._ending():
            self._write(Saved(version=version), b"")
            copies = [os.dup(file) for file in self._files]
            self._close(self._files[:-1])
        return lambda: _sync(copies, self._folder)

    def close(self) -> None:
        self._close(self._files)

    def _close(self, files: list[int]) -> None:
        self._files = self._files[len(files) :]
        for file in files:
            os.close(file)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """An OSError is the end of the recording."""
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
        """Only between two steps, so that each file can be read on its own."""
        assert self._began is not None
        self._remove_old()
        self._number += 1
        path = self._folder / f"{self._began.epoch:06d}-{self._number:06d}.log"
        self._files.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644))
        self._written = 0
        self._write(self._began, b"")

    def _remove_old(self) -> None:
        """The oldest files go until there is room for another; those that no kept checkpoint needs are the oldest."""
        if not self._keep:
            return
        sizes = [(path, path.stat().st_size) for _, _, path in segments(self._folder)]
        total = sum(size for _, size in sizes)
        for path, size in sizes:
            if total + self._segment_bytes <= self._keep:
                return
            path.unlink()
            total -= size

    def _write(self, entry: AnyEntry, body: Buffer) -> None:
        """The whole frame, or nothing of it and an OSError."""
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
    """Brings the files to the disk, and closes them."""
    with contextlib.ExitStack() as stack:
        for file in files:
            stack.callback(os.close, file)
        for file in files:
            os.fsync(file)
        sync_folder(folder)
