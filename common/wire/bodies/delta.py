"""The body of weights as a difference to a keyframe: whole weights of an earlier version, which every actor has.

| part | type | shape |
| --- | --- | --- |
| version of the keyframe | uint64, little-endian | |
| the extras, as in whole weights | float32 | extras |
| the differences of all vectors | the codec `int8+zstd` | vectors x size |

Each element is off by at most the largest |difference| of its block over 254, and float32's own rounding. Every delta
is against the keyframe, never against another delta: a broadcast may be lost, and errors do not add up.
"""

import struct
from collections.abc import Sequence

import numpy as np

from common.errors import CodecError
from common.wire.codecs.base import Floats
from common.wire.codecs.buffers import nbytes
from common.wire.codecs.registry import make
from common.wire.frames import Buffer

CODEC = "int8+zstd"
KEYFRAME = struct.Struct("<Q")


def keyframe_of(body: Buffer) -> int | None:
    """Return the version of a delta's keyframe; None if the body is too short."""
    return int(KEYFRAME.unpack_from(body)[0]) if nbytes(body) >= KEYFRAME.size else None


class DeltaFormat:
    """Like `WeightsFormat`, but for differences. Keeps scratch memory: one thread at a time."""

    def __init__(self, size: int, vectors: int = 1, extras: int = 0) -> None:
        self.codec = make(CODEC, vectors * size)
        self._size = size
        self._extras = extras
        self._difference = np.zeros(vectors * size, np.float32)

    def pack(self, version: int, difference: Floats, extras: Floats) -> bytes:
        """Return the body against the keyframe `version`; difference: (vectors * size,)."""
        return b"".join([KEYFRAME.pack(version), extras.tobytes(), self.codec.encode(difference)])

    def unpack(self, body: Buffer, version: int, keyframe: Floats, vectors: Sequence[Floats], extras: Floats) -> None:
        """Write keyframe + difference into the vectors; `keyframe` (vectors * size,) is of `version`.

        Raises CodecError, with nothing written, for a body that is not a delta, or is against another keyframe.
        """
        if (named := keyframe_of(body)) != version:
            raise CodecError(f"a delta against the keyframe {named}, but {version} is what there is")
        start = KEYFRAME.size + 4 * self._extras
        if nbytes(body) < start:
            raise CodecError(f"a delta of {nbytes(body)} bytes, shorter than its header and extras of {start}")
        view = memoryview(body).cast("B")
        self.codec.decode(view[start:], self._difference)
        parts = (whole.reshape(-1, self._size) for whole in (keyframe, self._difference))
        with np.errstate(all="ignore"):
            for vector, before, change in zip(vectors, *parts, strict=True):
                np.add(before, change, out=vector)
        extras[:] = np.frombuffer(view, np.float32, self._extras, KEYFRAME.size)
