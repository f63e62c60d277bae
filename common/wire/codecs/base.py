"""The codec interface: packs one float32 vector into a fixed length, with a stated worst-case error."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from common.errors import CodecError
from common.settings.codec_names import CodecKind
from common.wire.codecs.buffers import nbytes
from common.wire.frames import Buffer

Floats = NDArray[np.float32]


class Codec(ABC):
    """Packs vectors of `size` float32 elements (contiguous) into exactly `raw_bytes` bytes.

    The length follows from the codec and `size` alone, so the reader takes no length from the sender. An element that
    is not finite is decoded as not finite, so the receiver's check finds it. Little-endian hosts only.

    An instance keeps scratch memory: one thread at a time.
    """

    name: ClassVar[CodecKind]

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a codec needs at least 1 element, not {size}")
        self.size = size

    @property
    @abstractmethod
    def raw_bytes(self) -> int:
        """Length of every body."""

    def encode(self, vector: Floats) -> memoryview:
        """Pack `vector`, shape (size,); raises ValueError for another shape, type or layout.

        The result is a view of memory that the next `encode` overwrites, or of `vector` itself.
        """
        self._check(vector)
        return self._pack(vector)

    def decode(self, body: Buffer, out: Floats) -> None:
        """Unpack `body` into `out`, shape (size,); raises ValueError for another shape, type or layout.

        Raises CodecError, with `out` unchanged, for a body that has another length or cannot be decoded.
        """
        self._check(out)
        self._measure_body(body)
        self._unpack(body, out)

    def read(self, body: Buffer, scratch: Floats) -> Floats:
        """Return the vector in `body`: a view of it if it holds plain float32, else `scratch`; raises as `decode`."""
        self.decode(body, scratch)
        return scratch

    @abstractmethod
    def _pack(self, vector: Floats) -> memoryview: ...

    @abstractmethod
    def _unpack(self, body: Buffer, out: Floats) -> None: ...

    def _measure_body(self, body: Buffer) -> None:
        if nbytes(body) != self.raw_bytes:
            raise CodecError(
                f"{self.name} body of {self.size} elements must be {self.raw_bytes} bytes, not {nbytes(body)}"
            )

    def _check(self, vector: Floats) -> None:
        if vector.shape != (self.size,) or vector.dtype != np.float32 or not vector.flags.c_contiguous:
            raise ValueError(
                f"{self.name} takes a contiguous float32 array of {self.size} elements, "
                f"not {vector.dtype} {tuple(vector.shape)}"
            )
