"""The head of a delta: the version of its keyframe. Without torch, since the actor's core reads it."""

from __future__ import annotations

import struct

from common.wire.frames import Buffer

KEYFRAME = struct.Struct("<Q")


def keyframe_of(body: Buffer) -> int | None:
    """Version of the keyframe of a delta; None: the body is too short."""
    return int(KEYFRAME.unpack_from(body)[0]) if memoryview(body).nbytes >= KEYFRAME.size else None
