"""Two bytes an element: IEEE half precision and bfloat16, rounded to nearest even."""

from __future__ import annotations

import math
from typing import ClassVar

import torch

from common.settings.codec_names import CodecKind
from common.wire.codecs.base import Codec
from common.wire.codecs.buffers import as_bytes, read
from common.wire.frames import Buffer


class HalfCodec(Codec):
    """A 16-bit float format. Finite values beyond its range become its largest value, not infinity.

    Error: at most max(u |x|, d / 2, |x| - m), where u is 2^-11 (fp16) or 2^-8 (bf16), d the smallest subnormal, 2^-24
    or 2^-133, and m the largest value, 65504 or about 3.39e38.
    """

    dtype: ClassVar[torch.dtype]

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._halves = torch.empty(size, dtype=self.dtype)
        self._body = as_bytes(self._halves)

    @property
    def raw_bytes(self) -> int:
        return 2 * self.size

    def _pack(self, vector: torch.Tensor) -> memoryview:
        self._halves.copy_(vector)
        # One cheap pass: the sum is finite only if every half is. If it overflows by itself, the slow way is harmless.
        if not math.isfinite(self._halves.sum().item()):
            largest = torch.finfo(self.dtype).max
            self._halves.copy_(torch.where(vector.isinf(), vector, vector.clamp(-largest, largest)))
        return self._body

    def _unpack(self, body: Buffer, out: torch.Tensor) -> None:
        read(body, 0, self.dtype, out)


class Fp16Codec(HalfCodec):
    """IEEE half precision: 11 significant bits, up to 65504, down to 6e-8."""

    name: ClassVar[CodecKind] = "fp16"
    dtype = torch.float16


class Bf16Codec(HalfCodec):
    """bfloat16: 8 significant bits, the range of float32."""

    name: ClassVar[CodecKind] = "bf16"
    dtype = torch.bfloat16
