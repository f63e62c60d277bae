"""Elements as floats of another type, or as they are: float32, IEEE half precision and bfloat16."""

import math
from typing import ClassVar

import torch

from common.settings.codec_names import CodecKind
from common.wire.codecs.base import Codec
from common.wire.codecs.buffers import as_bytes, read
from common.wire.frames import Buffer


class FloatCodec(Codec):
    dtype: ClassVar[torch.dtype]

    @property
    def raw_bytes(self) -> int:
        return self.dtype.itemsize * self.size

    def _unpack(self, body: Buffer, out: torch.Tensor) -> None:
        read(body, 0, self.dtype, out)


class NoneCodec(FloatCodec):
    """Float32 as it is: lossless."""

    name: ClassVar[CodecKind] = "none"
    dtype = torch.float32

    def _pack(self, vector: torch.Tensor) -> memoryview:
        return as_bytes(vector)


class HalfCodec(FloatCodec):
    """A 16-bit float format. Rounds to nearest even; finite values beyond its range become its largest value.

    Error: at most max(u |x|, d / 2, |x| - m), where u is 2^-11 (fp16) or 2^-8 (bf16), d the smallest subnormal, 2^-24
    or 2^-133, and m the largest value, 65504 or about 3.39e38.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._halves = torch.empty(size, dtype=self.dtype)
        self._body = as_bytes(self._halves)

    def _pack(self, vector: torch.Tensor) -> memoryview:
        self._halves.copy_(vector)
        # One cheap pass: the sum is finite only if every half is. If it overflows by itself, the slow way is harmless.
        if not math.isfinite(self._halves.sum().item()):
            largest = torch.finfo(self.dtype).max
            self._halves.copy_(torch.where(vector.isinf(), vector, vector.clamp(-largest, largest)))
        return self._body


class Fp16Codec(HalfCodec):
    name: ClassVar[CodecKind] = "fp16"
    dtype = torch.float16


class Bf16Codec(HalfCodec):
    name: ClassVar[CodecKind] = "bf16"
    dtype = torch.bfloat16
