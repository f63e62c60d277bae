"""Base of the codecs that send one scale for each block of elements and a few bits for each element."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from common.wire.codecs.arithmetic import convert, scale_rows
from common.wire.codecs.base import Codec, Floats
from common.wire.codecs.buffers import as_bytes
from common.wire.frames import Buffer


class BlockCodec(Codec):
    """Body: a float32 scale per block, then `code_bytes` of codes per block; the last block is padded with zeros.

    If an element is not finite, its block's scale is not finite, and all elements of the block decode as inf or NaN.
    """

    block: ClassVar[int]
    """Elements that share a scale."""
    code_bytes: ClassVar[int]
    """Bytes of the codes of one block."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.blocks = -(-size // self.block)
        packed = np.empty(self.raw_bytes, np.uint8)
        self._body = as_bytes(packed)
        self._scales = packed[: 4 * self.blocks].view(np.float32)
        self._codes = packed[4 * self.blocks :].reshape(self.blocks, self.code_bytes)
        self._rows = np.zeros((self.blocks, self.block), np.float32)
        """The vector in blocks, padded with zeros."""
        self._scratch = np.empty_like(self._rows)
        self._read_scales = np.empty(self.blocks, np.float32)
        self._counts = np.full(self.blocks, self.block, np.float32)
        self._counts[-1] = size - (self.blocks - 1) * self.block

    @property
    def raw_bytes(self) -> int:
        return (4 + self.code_bytes) * -(-self.size // self.block)

    @abstractmethod
    def _quantise(self, rows: Floats, scales: Floats, codes: NDArray[np.uint8]) -> None:
        """Write the scale and the codes of each of the `rows`, shape (blocks, block)."""

    @abstractmethod
    def _signs(self, codes: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Return each element divided by its scale, (blocks, block); raises CodecError for codes that do not exist."""

    @np.errstate(all="ignore")
    def _pack(self, vector: Floats) -> memoryview:
        self._rows.reshape(-1)[: self.size] = vector
        self._quantise(self._rows, self._scales, self._codes)
        return self._body

    @np.errstate(all="ignore")
    def _unpack(self, body: Buffer, out: Floats) -> None:
        signs = self._signs(np.frombuffer(body, np.uint8, offset=4 * self.blocks).reshape(self._codes.shape))
        np.copyto(self._read_scales, np.frombuffer(body, np.float32, self.blocks))
        convert(signs, self._scratch)
        scale_rows(self._scratch, self._read_scales, self._scratch)
        np.copyto(out, self._scratch.reshape(-1)[: self.size])

    def _means(self, rows: Floats) -> Floats:
        """Return the mean magnitude of each block; NaN and infinity propagate."""
        means: Floats = np.einsum("ij->i", np.abs(rows, out=self._scratch))  # three times as fast as sum
        means /= self._counts
        # A sum of finite values may overflow float32, but not float64.
        if not np.isfinite(means).all():
            means = (np.abs(rows).sum(1, np.float64) / self._counts).astype(np.float32)
        return means
