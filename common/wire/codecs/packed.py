"""A codec followed by an entropy stage."""

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
        name: the name the peers agreed on, such as "int8+zstd".
        size: elements of the vector.
    """

    def __init__(self, name: str, codec: Codec, stage: EntropyStage) -> None:
        self.name = name
        self.size = codec.size
        self.codec = codec
        self.stage = stage

    @property
    def max_bytes(self) -> int:
        """Length that no body exceeds."""
        return self.stage.max_bytes

    def encode(self, vector: torch.Tensor) -> bytes:
        """The body for `vector`, shape (size,), contiguous float32 on the CPU; raises ValueError for another."""
        return self.stage.compress(self.codec.encode(vector))

    def decode(self, body: Buffer, out: torch.Tensor) -> None:
        """Unpacks `body` into `out`, shape (size,), contiguous float32 on the CPU.

        The receiver must check that the values are finite.

        Raises:
            CodecError: `body` cannot be of this codec; `out` is unchanged.
            ValueError: `out` is not as described.
        """
        if nbytes(body) > self.max_bytes:
            raise CodecError(
                f"{self.name} body of {self.size} elements is at most {self.max_bytes} bytes, not {nbytes(body)}"
            )
        self.codec.decode(self.stage.decompress(body), out)
