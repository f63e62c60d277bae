"""The broadcast of weights: one frame, a fixed header and the body, so that CONFLATE may drop all but the newest.

offset  0  magic    4 bytes  b"A3W" and the layout's number, 1
        4  run      8 bytes  first bytes of the SHA-256 of the run id
       12  epoch    uint32
       16  version  uint64
       24  format   uint8    0: fp32, 1: fp16, 2: delta (common/wire/bodies/delta.py)
       25  zero     3 bytes
       28  checksum uint32   CRC-32 of the body
Little-endian.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass

from common.errors import WireError
from common.wire.frames import Buffer

FORMATS = ("fp32", "fp16", "delta")
CODECS = {"fp32": "none", "fp16": "fp16"}
"""The codec whose body is the body of each format of full weights."""
KEYFRAME = struct.Struct("<Q")
"""What a delta's body begins with: the version of the keyframe it is against."""
_HEADER = struct.Struct("<4s8sIQB3xI")
_MAGIC = b"A3W\x01"


def run_mark(run: str) -> bytes:
    """Eight bytes that stand for a run id."""
    return hashlib.sha256(run.encode()).digest()[:8]


@dataclass(frozen=True)
class Broadcast:
    """Weights as published; `run` is a `run_mark`."""

    run: bytes
    epoch: int
    version: int
    format: str
    body: Buffer

    def pack(self) -> bytes:
        """The frame."""
        code = FORMATS.index(self.format)
        return _HEADER.pack(_MAGIC, self.run, self.epoch, self.version, code, zlib.crc32(self.body)) + self.body

    @classmethod
    def unpack(cls, frame: Buffer) -> Broadcast:
        """The broadcast in a frame; raises `WireError`. The body is a view of the frame, not a copy."""
        if len(frame) < _HEADER.size:
            raise WireError(f"a broadcast of {len(frame)} bytes, shorter than its header")
        magic, run, epoch, version, code, checksum = _HEADER.unpack_from(frame)
        if magic != _MAGIC or code >= len(FORMATS):
            raise WireError("a broadcast of another layout: is this the weights port of an a3cd learner?")
        body = memoryview(frame)[_HEADER.size :]
        if zlib.crc32(body) != checksum:
            raise WireError(f"broadcast of version {version} is damaged: its checksum is wrong")
        return cls(run, epoch, version, FORMATS[code], body)


def keyframe_of(body: Buffer) -> int | None:
    """Version of the keyframe that a delta is against; None: the body is too short to say."""
    return int(KEYFRAME.unpack_from(body)[0]) if memoryview(body).nbytes >= KEYFRAME.size else None
