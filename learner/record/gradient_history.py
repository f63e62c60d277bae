"""Reading the record of what was applied: which entries the newest weights stand on.

A resumed run goes back to a checkpoint. What an epoch applied beyond the version at which a later one began was lost
with the restart: the history goes through each epoch up to there, and then on with the later one.

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
    """Entries with their bodies, up to a frame that was never finished.

    Raises DamagedRecordError at one that was altered, or if the file cannot be read.
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
                    return  # unread: room for so much would be taken first
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
    """The first entry of a file; None if not even that was finished. Raises DamagedRecordError."""
    entry, _ = next(frames(path), (None, b""))
    if entry is None or isinstance(entry, Began):
        return entry
    raise DamagedRecordError(f"{path}: damaged at byte 0: a file begins with the epoch that it is of")


@dataclass(frozen=True)
class Epoch:
    """The files that are left of one epoch, without holes."""

    paths: list[Path]
    began: Began
    """Of the first of them."""
    whole: bool
    """Its first file is there."""
    end: int
    """Newest version that can be reached."""
    damage: str
    """What it is that ends it; empty if it is only its end."""

    @classmethod
    def read(cls, files: list[tuple[int, Path]]) -> "Epoch | None":
        """`files` by their numbers; None if they are empty. Raises DamagedRecordError if none can be read."""
        paths: list[Path] = []
        first: Began | None = None
        oldest, damage = files[-1][0] + 1, ""
        for number, path in reversed(files):
            found, problem = _begin(path)
            if number != oldest - 1 or (paths and found is None):
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
        return cls(paths, first, oldest == 0, end, stopped or damage)


def _begin(path: Path) -> tuple[Began | None, str]:
    """The first entry of a file, or what is wrong with it."""
    try:
        return began(path), ""
    except DamagedRecordError as error:
        return None, str(error)


def _last_step(path: Path) -> tuple[int, str]:
    """The newest version in a file, and the damage behind it."""
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
    """What the history takes from one epoch: the steps behind version `first`, up to `last`."""

    epoch: Epoch
    first: int
    last: int

    def entries(self, after: int, until: int) -> Iterator[tuple[AnyEntry, bytes]]:
        """Those behind version `after`, the step to version `until` the last. Raises DamagedRecordError."""
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
        """Without the files that end before version `after`."""
        paths = self.epoch.paths
        while len(paths) > 1 and (second := began(paths[1])) is not None and second.version <= after:
            paths = paths[1:]
        return paths


@dataclass(frozen=True)
class Lost:
    """Steps that an epoch took and that no later weights stand on."""

    epoch: int
    after: int
    until: int


@dataclass(frozen=True)
class History:
    """The steps that the newest weights stand on, as far back as the record goes without a hole."""

    pieces: list[Piece]
    """Oldest first; each goes on where the one before ends."""
    lost: list[Lost] = field(default_factory=list)
    hole: str = ""
    """Why it does not go further back."""

    @property
    def first(self) -> int:
        return self.pieces[0].first

    @property
    def last(self) -> int:
        return self.pieces[-1].last

    @property
    def newest(self) -> Began:
        """The newest epoch."""
        return self.pieces[-1].epoch.began

    @property
    def damage(self) -> str:
        """Behind the last step that can be read."""
        return self.pieces[-1].epoch.damage

    def is_on(self, version: int, epoch: int) -> bool:
        """Whether the weights that `epoch` made as this version are of this history."""
        begins = any(piece.first == version and epoch < piece.epoch.began.epoch for piece in self.pieces)
        own = (piece for piece in self.pieces if piece.epoch.began.epoch == epoch)
        return begins or any(piece.first <= version <= piece.last for piece in own)

    @classmethod
    def read(cls, folder: Path) -> "History":
        """Raises ConfigurationError if there is no record in the folder, DamagedRecordError if it cannot be read."""
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
        return cls(pieces, lost)


def _epochs(folder: Path) -> Iterator[Epoch]:
    """The newest first."""
    groups = groupby(reversed(segments(folder)), key=lambda segment: segment[0])
    for _, group in groups:
        if (epoch := Epoch.read([(number, path) for _, number, path in group][::-1])) is not None:
            yield epoch
