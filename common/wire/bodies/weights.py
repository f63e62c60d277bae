"""The weights as one body: all that acting takes from the learner, in a format both ends know from the welcome."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from common.errors import CodecError
from common.wire.bodies.broadcast import CODECS
from common.wire.codecs.buffers import as_bytes, nbytes, read
from common.wire.codecs.registry import make
from common.wire.frames import Buffer


class WeightsFormat:
    """Vectors of parameters (the network's; after it a target network's, where there is one), each packed alike, then
    the `extras` as they are: float32 that a half would spoil, such as running statistics. One thread at a time.
    """

    def __init__(self, form: str, size: int, vectors: int = 1, extras: int = 0) -> None:
        """`form`: fp32 or fp16; `size`: parameters of one vector; `extras`: elements."""
        self._codec = make(CODECS[form], size)
        self._part = self._codec.codec.raw_bytes
        self._vectors = vectors
        self._bytes = vectors * self._part + 4 * extras

    def pack(self, vectors: Sequence[Tensor], extras: Tensor) -> bytes:
        """The body; everything is contiguous float32 on the CPU."""
        return b"".join([*map(self._codec.encode, vectors), as_bytes(extras)])

    def unpack(self, body: Buffer, vectors: Sequence[Tensor], extras: Tensor) -> None:
        """Writes what `body` holds into the vectors and the extras.

        Raises CodecError, with nothing written, for a body of another length.
        """
        if nbytes(body) != self._bytes:
            raise CodecError(f"weights of {nbytes(body)} bytes, {self._bytes} were expected")
        view = memoryview(body).cast("B")
        for number, vector in enumerate(vectors):
            self._codec.decode(view[number * self._part : (number + 1) * self._part], vector)
        if extras.numel():
            read(view, self._vectors * self._part, torch.float32, extras)
