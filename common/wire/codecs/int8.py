"""One byte an element: blocks of 256 share a scale (block-wise linear quantisation, as in arXiv 2110.02861)."""

from typing import ClassVar

import numpy as np

from common.settings.codec_names import CodecKind
from common.wire.codecs.arithmetic import convert, quantise, row_peaks, scale_rows
from common.wire.codecs.base import Codec, Floats
from common.wire.codecs.buffers import as_bytes
from common.wire.frames import Buffer

BLOCK = 256
_CACHED_BLOCKS = 256
"""Blocks quantised at a time, so that 256 KiB of scratch stay in the cache between the three passes."""
_PEAK_TO_SCALE = np.float32((1 - 2**-22) / 127)
"""Slightly below 1/127, so that 127 times the scale of the largest float32 is finite."""
_SMALLEST_SCALE = np.finfo(np.float32).tiny
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
        self._cut = self._whole * BLOCK
        """Elements of the whole blocks."""
        blocks = self._whole + (self._rest > 0)
        packed = np.empty(self.raw_bytes, np.uint8)
        self._body = as_bytes(packed)
        self._scales = packed[: 4 * blocks].view(np.float32)
        self._codes = packed[4 * blocks :].view(np.int8)
        self._inverses = np.empty(blocks, np.float32)
        self._read_scales = np.empty(blocks, np.float32)
        # Views are made once: for a small vector making them takes longer than the arithmetic.
        self._whole_scales, self._rest_scale = self._scales[: self._whole], self._scales[self._whole :]
        self._read_whole, self._read_rest = self._read_scales[: self._whole], self._read_scales[self._whole :]
        scratch = np.empty((min(_CACHED_BLOCKS, blocks), BLOCK), np.float32)
        codes = self._codes[: self._cut].reshape(-1, BLOCK)
        ranges = [slice(row, min(row + _CACHED_BLOCKS, self._whole)) for row in range(0, self._whole, _CACHED_BLOCKS)]
        self._chunks = [(part, self._inverses[part], scratch[: len(codes[part])], codes[part]) for part in ranges]
        self._rest_steps = scratch[0, : self._rest]
        self._rest_codes = self._codes[self._cut :]

    @property
    def raw_bytes(self) -> int:
        return self.size + 4 * -(-self.size // BLOCK)

    @np.errstate(all="ignore")
    def _pack(self, vector: Floats) -> memoryview:
        rows, rest = vector[: self._cut].reshape(-1, BLOCK), vector[self._cut :]
        self._measure(rows, rest)
        np.reciprocal(self._scales, out=self._inverses)
        for part, inverses, steps, codes in self._chunks:
            quantise(rows[part], inverses, steps, codes)
        if self._rest:
            np.multiply(rest, self._inverses[-1], out=self._rest_steps)
            np.copyto(self._rest_codes, np.rint(self._rest_steps, out=self._rest_steps), casting="unsafe")
        return self._body

    @np.errstate(all="ignore")
    def _unpack(self, body: Buffer, out: Floats) -> None:
        np.copyto(self._read_scales, np.frombuffer(body, np.float32, self._read_scales.size))
        convert(np.frombuffer(body, np.int8, offset=self._scales.nbytes), out)
        if self._whole:
            rows = out[: self._cut].reshape(-1, BLOCK)
            scale_rows(rows, self._read_whole, rows)
        if self._rest:
            out[self._cut :] *= self._read_rest

    def _measure(self, rows: Floats, rest: Floats) -> None:
        """Write the scale of each block into `_scales`; NaN propagates."""
        if self._whole:
            row_peaks(rows, self._whole_scales)
        if self._rest:
            self._rest_scale[0] = np.abs(rest).max()
        self._scales *= _PEAK_TO_SCALE
        np.maximum(self._scales, _SMALLEST_SCALE, out=self._scales)
