"""Elements as floats of another type, or as they are: float32, IEEE half precision and bfloat16."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from common.settings.codec_names import CodecKind
from common.wire.codecs.arithmetic import convert, from_bfloat16, to_bfloat16
from common.wire.codecs.base import Codec, Floats
from common.wire.codecs.buffers import as_bytes
from common.wire.frames import Buffer

Bits = NDArray[np.uint16]


class NoneCodec(Codec):
    """Float32 as it is: lossless."""

    name: ClassVar[CodecKind] = "none"

    @property
    def raw_bytes(self) -> int:
        return 4 * self.size

    def _pack(self, vector: Floats) -> memoryview:
        return as_bytes(vector)

    def _unpack(self, body: Buffer, out: Floats) -> None:
        np.copyto(out, np.frombuffer(body, np.float32))

    def read(self, body: Buffer, scratch: Floats) -> Floats:  # noqa: ARG002
        self._measure_body(body)
        return np.frombuffer(body, np.float32)


class HalfCodec(Codec):
    """A 16-bit float format. Rounds to nearest even; finite values beyond its range become its largest value.

    Error: at most max(u |x|, d / 2, |x| - m), where u is 2^-11 (fp16) or 2^-8 (bf16), d the smallest subnormal, 2^-24
    or 2^-133, and m the largest value, 65504 or about 3.39e38.
    """

    infinity: ClassVar[int]
    """The bits of infinity: larger magnitudes are NaN, smaller ones are finite values."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._bits = np.empty(size, np.uint16)
        self._magnitudes = np.empty(size, np.uint16)
        self._body = as_bytes(self._bits)
        self._largest = np.empty(1, np.float32)
        self._widen(np.array([self.infinity - 1], np.uint16), self._largest)

    @property
    def raw_bytes(self) -> int:
        return 2 * self.size

    @abstractmethod
    def _narrow(self, values: Floats, bits: Bits) -> None:
        """Write the bits of each value; values beyond the range become infinite."""

    @abstractmethod
    def _widen(self, bits: Bits, out: Floats) -> None:
        """Write the value of each half."""

    def _pack(self, vector: Floats) -> memoryview:
        self._narrow(vector, self._bits)
        if np.bitwise_and(self._bits, 0x7FFF, out=self._magnitudes).max() >= self.infinity:
            largest = self._largest[0]
            self._narrow(np.where(np.isinf(vector), vector, np.clip(vector, -largest, largest)), self._bits)
        return self._body

    def _unpack(self, body: Buffer, out: Floats) -> None:
        self._widen(np.frombuffer(body, np.uint16), out)


class Fp16Codec(HalfCodec):
    name: ClassVar[CodecKind] = "fp16"
    infinity = 0x7C00

    def _narrow(self, values: Floats, bits: Bits) -> None:
        convert(values, bits.view(np.float16))

    def _widen(self, bits: Bits, out: Floats) -> None:
        convert(bits.view(np.float16), out)


class Bf16Codec(HalfCodec):
    name: ClassVar[CodecKind] = "bf16"
    infinity = 0x7F80

    def _narrow(self, values: Floats, bits: Bits) -> None:
        to_bfloat16(values, bits)

    def _widen(self, bits: Bits, out: Floats) -> None:
        from_bfloat16(bits, out)
