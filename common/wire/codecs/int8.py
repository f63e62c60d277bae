"""One byte an element: blocks of 256 share a scale (block-wise linear quantisation, as in arXiv 2110.02861)."""

import math
from typing import ClassVar

import torch

from common.settings.codec_names import CodecKind
from common.wire.codecs.base import Codec
from common.wire.codecs.buffers import as_bytes, read
from common.wire.frames import Buffer

BLOCK = 256
_CACHED_BLOCKS = 256
"""Blocks quantised at a time, so that 256 KiB of scratch stay in the cache between the three passes."""
_PEAK_TO_SCALE = torch.tensor((1 - 2**-22) / 127, dtype=torch.float32)
"""Slightly below 1/127, so that 127 times the scale of the largest float32 is finite."""
_SMALLEST_SCALE = torch.finfo(torch.float32).tiny
"""The reciprocal of a smaller scale could be infinite."""


class Int8Codec(Codec):
    """Per block a float32 scale s = max|x| / 127, at least 2^-126; per element round(x / s) as int8.

    Body: all scales, then all elements; the last block may be short. If an element is not finite, its block's scale is
    not finite, and all elements of the block decode as inf or NaN.

    Error: at most s (1/2 + 2^-14); 2^-14 bounds the float32 error of values up to 127 steps.
    """

    name: ClassVar[CodecKind] = "int8"

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._whole, self._rest = divmod(size, BLOCK)
        blocks = self._whole + (self._rest > 0)
        packed = torch.empty(self.raw_bytes, dtype=torch.uint8)
        self._body = as_bytes(packed)
        self._scales = packed[: 4 * blocks].view(torch.float32)
        self._minima = torch.empty(self._whole)
        self._inverses = torch.empty(blocks)
        self._read_scales = torch.empty(blocks)
        # Views are made once: for a small vector making them takes longer than the arithmetic.
        self._whole_scales = self._scales[: self._whole]
        self._rest_scale = self._scales[self._whole :]
        self._read_columns = self._read_scales.unsqueeze(1)
        self._rows = [min(_CACHED_BLOCKS, self._whole - row) for row in range(0, self._whole, _CACHED_BLOCKS)]
        self._codes = self._chunks(*self._split(packed[4 * blocks :].view(torch.int8)))
        scratch = torch.empty(max(codes.numel() for codes in self._codes))
        self._scratch = [scratch[: codes.numel()].view(codes.shape) for codes in self._codes]
        self._chunk_inverses = self._inverses.unsqueeze(1).split_with_sizes([len(codes) for codes in self._codes])

    @property
    def raw_bytes(self) -> int:
        return self.size + 4 * -(-self.size // BLOCK)

    def _pack(self, vector: torch.Tensor) -> memoryview:
        whole, rest = self._split(vector)
        self._measure(whole, rest)
        torch.reciprocal(self._scales, out=self._inverses)
        for values, inverse, steps, codes in zip(
            self._chunks(whole, rest), self._chunk_inverses, self._scratch, self._codes, strict=True
        ):
            torch.mul(values, inverse, out=steps).round_()
            codes.copy_(steps)
        return self._body

    def _unpack(self, body: Buffer, out: torch.Tensor) -> None:
        read(body, 0, torch.float32, self._read_scales)
        read(body, 4 * self._read_scales.numel(), torch.int8, out)
        whole, rest = self._split(out)
        whole.mul_(self._read_columns[: self._whole])
        if self._rest:
            rest.mul_(self._read_columns[self._whole :])

    def _measure(self, whole: torch.Tensor, rest: torch.Tensor) -> None:
        """Writes the scale of each block into `_scales`; NaN propagates."""
        if self._whole:
            torch.amax(whole, 1, out=self._whole_scales)
            torch.amin(whole, 1, out=self._minima)
            torch.maximum(self._whole_scales, self._minima.neg_(), out=self._whole_scales)
        if self._rest:
            torch.linalg.vector_norm(rest, math.inf, dim=1, out=self._rest_scale)
        self._scales.mul_(_PEAK_TO_SCALE).clamp_(min=_SMALLEST_SCALE)

    def _split(self, vector: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Views of the whole blocks, shape (whole, BLOCK), and of the short one, (1, rest)."""
        offset = vector.storage_offset()
        whole = vector.as_strided((self._whole, BLOCK), (BLOCK, 1), offset)
        rest = vector.as_strided((1, self._rest), (BLOCK, 1), offset + self._whole * BLOCK)
        return whole, rest

    def _chunks(self, whole: torch.Tensor, rest: torch.Tensor) -> list[torch.Tensor]:
        """The parts that are quantised at a time, each (blocks, elements of a block)."""
        chunks = list(whole.split_with_sizes(self._rows)) if self._whole else []
        return [*chunks, rest] if self._rest else chunks
