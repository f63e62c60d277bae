"""Reads the record of what was applied: the history is the entries that led to the newest weights.

A resumed run goes back to a checkpoint. The steps of an epoch beyond the version at which a later epoch began were lost
with the restart. So the history follows each epoch up to that version, and then continues with the later one.

    epoch 1   0 ------------- 120 ~~~~~ 134       steps 121 to 134 were lost
    epoch 2                   120 -------------- 300
"""

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import msgspec

from common.errors import ConfigurationError, DamagedRecordError
from learner.applied import AnyEntry, Began, Stepped
from learner.record.gradient_log import FRAME, segments


def frames(path: Path) -> Iterator[tuple[AnyEntry, bytes]]:
    """Yield the entries of a file with their bodies, up to a frame that was never finished.

    Raises DamagedRecordError at a frame that was altered, or if the file cannot be read.
    """
    decoder = msgspec.msgpack.Decoder(AnyEntry)
    at = 0
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            while len(head := file.read(FRAME.size)) == FRAME.size:
                entry_bytes, body_bytes, lengths_checksum, checksum = FRAME.unpack(head)
                if zlib.crc32(head[:8]) != lengths_checksum:
                    raise DamagedRecordError(f"{path}: damaged at byte {at:,}: no frame begins there")
                if file.tell() + entry_bytes + body_bytes > size:
                    return  # without reading, which would allocate memory for the announced length first
                data = file.read(entry_bytes + body_bytes)
                if zlib.crc32(data) != checksum:
                    raise DamagedRecordError(f"{path}: damaged at byte {at:,}: the frame has another checksum")
                yield decoder.decode(memoryview(data)[:entry_bytes]), data[entry_bytes:]
                at += FRAME.size + len(data)
    except OSError as error:
        raise DamagedRecordError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        text = f"{path}: at byte {at:,} is no entry that this a3cd knows ({error}); replay with the one that recorded"
        raise DamagedRecordError(text) from error


def began(path: Path) -> Began | None:
    """Return the first entry of a file; None if not even that was finished. Raises DamagedRecordError."""
    entry, _ = next(frames(path), (None, b""))
    if entry is None or isinstance(entry, Began):
        return entry
    raise DamagedRecordError(f"{path}: damaged at byte 0: a file begins with the epoch that it is of")


@dataclass(frozen=True)
class Epoch:
    """The newest files of one epoch, back to the first hole."""

    paths: list[Path]
    began: Began
    """The first entry of the oldest of these files."""
    whole: bool
    """Whether the first file of the epoch is there."""
    end: int
    """Newest version that can be reached."""
    damage: str
    """The damage that ends the readable part; empty: it ends without damage."""
    hole: str = ""
    """The damage before these files; empty: there is none, or it is not known."""

    @classmethod
    def read(cls, files: list[tuple[int, Path]]) -> "Epoch | None":
        """Read an epoch from its `files`, sorted by number; None if they hold no entry.

        Raises DamagedRecordError if none can be read.
        """
        paths: list[Path] = []
        first: Began | None = None
        oldest, damage, hole = files[-1][0] + 1, "", ""
        for number, path in reversed(files):
            found, problem = _begin(path)
            if number != oldest - 1 or (paths and found is None):
                hole = problem
                break
            oldest = number
            if found is None:
                damage = problem or damage
            else:
                first, paths = found, [path, *paths]
        if first is None and damage:
            raise DamagedRecordError(damage)
        if first is None:
            return None
        end, stopped = _last_step(paths[-1])
        return cls(paths, first, oldest == 0, end, stopped or damage, hole)


def _begin(path: Path) -> tuple[Began | None, str]:
    """Return the first entry of a file (None: there is none), and what is wrong with the file."""
    try:
        return began(path), ""
    except DamagedRecordError as error:
        return None, str(error)


def _last_step(path: Path) -> tuple[int, str]:
    """Return the newest version in a file, and the damage after it."""
    version = 0
    try:
        for entry, _ in frames(path):
            if isinstance(entry, Began | Stepped):
                version = entry.version
    except DamagedRecordError as error:
        return version, str(error)
    return version, ""


@dataclass(frozen=True)
class Piece:
    """The part of the history that comes from one epoch: the steps after version `first`, up to `last`."""

    epoch: Epoch
    first: int
    last: int

    def entries(self, after: int, until: int) -> Iterator[tuple[AnyEntry, bytes]]:
        """Yield the entries after version `after`, up to the step to version `until`. Raises DamagedRecordError."""
        version = -1
        for path in self._paths(after):
            for entry, body in frames(path):
                if isinstance(entry, Began):
                    if version not in (-1, entry.version):
                        raise DamagedRecordError(f"{path}: begins at version {entry.version}, not at {version}")
                    version = entry.version
                here = version >= after
                if isinstance(entry, Stepped):
                    if entry.version != version + 1:
                        raise DamagedRecordError(f"{path}: version {entry.version} follows {version}")
                    version = entry.version
                if here:
                    yield entry, body
                if version >= until:
                    return
        raise DamagedRecordError(f"{self.epoch.paths[-1]}: ends at version {version}, before {until}")

    def _paths(self, after: int) -> list[Path]:
        """Return the files without those that end before version `after`."""
        paths = self.epoch.paths
        while len(paths) > 1 and (second := began(paths[1])) is not None and second.version <= after:
            paths = paths[1:]
        return paths


@dataclass(frozen=True)
class Lost:
    """Steps that an epoch took but that no later weights include: those after version `after`, up to `until`."""

    epoch: int
    after: int
    until: int


@dataclass(frozen=True)
class History:
    """The steps that led to the newest weights, as far back as the record goes without a hole."""

    pieces: list[Piece]
    """Oldest first; each continues where the previous one ends."""
    lost: list[Lost] = field(default_factory=list)
    hole: str = ""
    """Why it does not go further back; empty: the record begins there."""

    @property
    def first(self) -> int:
        return self.pieces[0].first

    @property
    def last(self) -> int:
        return self.pieces[-1].last

    @property
    def newest(self) -> Began:
        """The beginning of the newest epoch."""
        return self.pieces[-1].epoch.began

    @property
    def damage(self) -> str:
        """The damage after the last step that can be read; empty: there is none."""
        return self.pieces[-1].epoch.damage

    def is_on(self, version: int, epoch: int) -> bool:
        """Whether the weights of this version, as `epoch` made them, belong to this history."""
        begins = any(piece.first == version and epoch < piece.epoch.began.epoch for piece in self.pieces)
        own = (piece for piece in self.pieces if piece.epoch.began.epoch == epoch)
        return begins or any(piece.first <= version <= piece.last for piece in own)

    @classmethod
    def read(cls, folder: Path) -> "History":
        """Read the history from a folder.

        Raises ConfigurationError if there is no record in the folder, DamagedRecordError if it cannot be read.
        """
        epochs = _epochs(folder)
        newest = next(epochs, None)
        if newest is None:
            raise ConfigurationError(
                f"{folder}: nothing is recorded there; train with --set record.gradients=true to have it"
            )
        pieces = [Piece(newest, newest.began.version, newest.end)]
        lost: list[Lost] = []
        try:
            for epoch in epochs:
                cut, begins = pieces[0].first, epoch.began.version
                if not pieces[0].epoch.whole:
                    break
                if epoch.end < cut:
                    ended = f"epoch {epoch.began.epoch} was recorded up to version {epoch.end}, not to {cut}"
                    return cls(pieces, lost, epoch.damage or ended)
                if epoch.end > max(cut, begins):
                    lost.insert(0, Lost(epoch.began.epoch, max(cut, begins), epoch.end))
                if begins < cut:
                    pieces.insert(0, Piece(epoch, begins, cut))
        except DamagedRecordError as error:
            return cls(pieces, lost, str(error))
        return cls(pieces, lost, pieces[0].epoch.hole)


def _epochs(folder: Path) -> Iterator[Epoch]:
    """Yield the epochs of a record, the newest first."""
    groups = groupby(reversed(segments(folder)), key=lambda segment: segment[0])
    for _, group in groups:
        if (epoch := Epoch.read([(number, path) for _, number, path in group][::-1])) is not None:
            yield epoch
