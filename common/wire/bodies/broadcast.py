"""A broadcast of weights: one frame, since CONFLATE drops all frames but the newest. Little-endian.

| offset | field | type | content |
| --- | --- | --- | --- |
| 0 | magic | 4 bytes | `A3W` and the number of this layout, 1 |
| 4 | run | 8 bytes | the first bytes of the SHA-256 of the run id |
| 12 | epoch | uint32 | |
| 16 | version | uint64 | |
| 24 | format | uint8 | 0: fp32, 1: fp16, 2: delta |
| 25 | | 3 bytes | zero |
| 28 | checksum | uint32 | CRC-32 of the body |
| 32 | body | | the weights |
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache

from common.errors import WireError
from common.wire.frames import Buffer

FORMATS = ("fp32", "fp16", "delta")
"""fp32 and fp16 are whole weights (common.wire.bodies.weights); delta: common.wire.bodies.delta."""
_HEADER = struct.Struct("<4s8sIQB3xI")
_MAGIC = b"A3W\x01"


@lru_cache(maxsize=4)
def run_mark(run: str) -> bytes:
    """Return the eight bytes that stand for a run id."""
    return hashlib.sha256(run.encode()).digest()[:8]


@dataclass(frozen=True)
class Broadcast:
    """Published weights; `run` is a `run_mark`."""

    run: bytes
    epoch: int
    version: int
    format: str
    body: Buffer

    def pack(self) -> bytes:
        code = FORMATS.index(self.format)
        return _HEADER.pack(_MAGIC, self.run, self.epoch, self.version, code, zlib.crc32(self.body)) + self.body

    @classmethod
    def unpack(cls, frame: Buffer) -> Broadcast:
        """Return the broadcast in a frame; its body is a view of the frame. Raises WireError."""
        if len(frame) < _HEADER.size:
            raise WireError(f"a broadcast of {len(frame)} bytes, shorter than its header")
        magic, run, epoch, version, code, checksum = _HEADER.unpack_from(frame)
        if magic != _MAGIC or code >= len(FORMATS):
            raise WireError("a broadcast of another layout: is this the weights port of an a3cd learner?")
        body = memoryview(frame)[_HEADER.size :]
        if zlib.crc32(body) != checksum:
            raise WireError(f"broadcast of version {version} is damaged: its checksum is wrong")
        return cls(run, epoch, version, FORMATS[code], body)
