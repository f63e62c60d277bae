"""A codec and an entropy stage as one: what actors and the learner hold."""

from __future__ import annotations

import torch

from common.errors import CodecError
from common.wire.codecs.base import Codec
from common.wire.codecs.buffers import nbytes
from common.wire.codecs.entropy import EntropyStage
from common.wire.frames import Buffer


class PackedCodec:
    """Vectors of `size` float32 elements to message bodies and back. One thread at a time.

    Attributes:
        name: what the peers agreed on, such as "int8+zstd".
        size: elements of the vector.
        codec: packs the vector.
        stage: compresses what the codec packed.
    """

    def __init__(self, name: str, codec: Codec, stage: EntropyStage) -> None:
        self.name = name
        self.size = codec.size
        self.codec = codec
        self.stage = stage

    @property
    def max_bytes(self) -> int:
        """Length no body exceeds."""
        return self.stage.max_bytes

    def encode(self, vector: torch.Tensor) -> bytes:
        """The body for `vector`, shape (size,), contiguous float32 on the CPU.

        Raises:
            ValueError: `vector` is anything else.
        """
        return self.stage.compress(self.codec.encode(vector))

    def decode(self, body: Buffer, out: torch.Tensor) -> None:
        """Writes the vector that `body` stands for into `out`, shape (size,), contiguous float32 on the CPU.

        The values may be infinite or NaN: that is the receiver's to check.

        Raises:
            CodecError: `body` is nothing this codec makes; `out` is untouched.
            ValueError: `out` is not as described.
        """
        if nbytes(body) > self.max_bytes:
            raise CodecError(
                f"{self.name} body of {self.size} elements is at most {self.max_bytes} bytes, not {nbytes(body)}"
            )
        self.codec.decode(self.stage.decompress(body), out)

    def bound(self, vector: torch.Tensor) -> torch.Tensor:
        """Largest absolute error of each element after a round trip of a finite `vector`: shape (size,), float64."""
        return self.codec.bound(vector)
