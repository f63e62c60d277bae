"""The body of whole weights, in the `weights_format` of the welcome. Little-endian.

| part | type | shape |
| --- | --- | --- |
| the network's parameters, flat | float32 (`fp32`) or float16 (`fp16`) | size |
| the target network's, with an algorithm that has one | the same | size |
| the extras: running statistics, the background of pictures, the frames of the run | float32 | extras |

The extras stay float32, since half precision would spoil running statistics.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import CodecError
from common.wire.codecs.base import Codec, Floats
from common.wire.codecs.buffers import nbytes
from common.wire.codecs.floats import Fp16Codec, NoneCodec
from common.wire.frames import Buffer

WHOLE_FORMATS: dict[str, type[Codec]] = {"fp32": NoneCodec, "fp16": Fp16Codec}


class WeightsFormat:
    """Packs parameter vectors and extras. Keeps scratch memory: one thread at a time."""

    def __init__(self, form: str, size: int, vectors: int = 1, extras: int = 0) -> None:
        """form: fp32 or fp16. size: parameters of one vector. vectors: their number. extras: number of elements."""
        self._codec = WHOLE_FORMATS[form](size)
        self._vectors = vectors
        self._bytes = vectors * self._codec.raw_bytes + 4 * extras

    def pack(self, vectors: Sequence[NDArray[Any]], extras: Floats) -> bytes:
        """Return the body; the arrays are contiguous float32 on the CPU, the vectors perhaps halves already."""
        return b"".join([*(self._packed(vector) for vector in vectors), extras.tobytes()])

    def _packed(self, vector: NDArray[Any]) -> bytes:
        return vector.tobytes() if vector.dtype == np.float16 else bytes(self._codec.encode(vector))

    def unpack(self, body: Buffer, vectors: Sequence[Floats], extras: Floats) -> None:
        """Write the content of `body` into the vectors and the extras.

        Raises CodecError, with nothing written, for a body of another length.
        """
        if nbytes(body) != self._bytes:
            raise CodecError(f"weights of {nbytes(body)} bytes, {self._bytes} were expected")
        view = memoryview(body).cast("B")
        part = self._codec.raw_bytes
        for number, vector in enumerate(vectors):
            self._codec.decode(view[number * part : (number + 1) * part], vector)
        extras[:] = np.frombuffer(view, np.float32, extras.size, self._vectors * part)
