"""What codecs share that send one scale for each block of elements and a few bits for each element."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from common.wire.codecs.base import Codec
from common.wire.codecs.buffers import as_bytes, read
from common.wire.frames import Buffer

ROUNDING = 2**-20
"""More than float32 arithmetic loses on a sum over a block, relative to the sum."""
UNDERFLOW = 2.0**-117
"""More than it loses where numbers below 2^-126 are taken for 0."""


class BlockCodec(Codec):
    """Body: a float32 scale per block, then the codes, `code_bytes` for every block, the last one as if zeros followed.

    A block with an element that is not finite gets a scale that is not, and comes out as infinities and NaN throughout.
    """

    block: ClassVar[int]
    """Elements that share a scale."""
    code_bytes: ClassVar[int]
    """Bytes of the codes of one block."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.blocks = -(-size // self.block)
        packed = torch.empty(self.raw_bytes, dtype=torch.uint8)
        self._body = as_bytes(packed)
        self._scales = packed[: 4 * self.blocks].view(torch.float32)
        self._codes = packed[4 * self.blocks :].numpy().reshape(self.blocks, self.code_bytes)
        self._rows = torch.zeros(self.blocks, self.block)
        """The vector in blocks, zeros after its end."""
        self._scratch = torch.empty(self.blocks, self.block)
        self._read_scales = torch.empty(self.blocks)
        self._counts = torch.full((self.blocks,), float(self.block))
        self._counts[-1] = size - (self.blocks - 1) * self.block

    @property
    def raw_bytes(self) -> int:
        """4 bytes and the codes for each block."""
        return (4 + self.code_bytes) * -(-self.size // self.block)

    @abstractmethod
    def _quantise(self, rows: torch.Tensor, scales: torch.Tensor, codes: NDArray[np.uint8]) -> None:
        """Writes the scale of each of the `rows`, shape (blocks, block), and its codes."""

    @abstractmethod
    def _signs(self, codes: NDArray[np.uint8]) -> NDArray[np.int8]:
        """The multiple of its scale that each element is, shape (blocks, block); raises CodecError for no such code."""

    def _pack(self, vector: torch.Tensor) -> memoryview:
        self._quantise(self._in_blocks(vector), self._scales, self._codes)
        return self._body

    def _unpack(self, body: Buffer, out: torch.Tensor) -> None:
        codes = np.frombuffer(body, np.uint8, offset=4 * self.blocks).reshape(self.blocks, self.code_bytes)
        signs = self._signs(codes)
        read(body, 0, torch.float32, self._read_scales)
        rows = self._scratch.copy_(torch.from_numpy(signs)).mul_(self._read_scales.unsqueeze(1))
        out.copy_(rows.view(-1)[: self.size])

    def _in_blocks(self, vector: torch.Tensor) -> torch.Tensor:
        self._rows.view(-1)[: self.size].copy_(vector)
        return self._rows

    def _means(self, rows: torch.Tensor) -> torch.Tensor:
        """The mean magnitude of each block; NaN and infinity go through."""
        means = torch.abs(rows, out=self._scratch).sum(1).div_(self._counts)
        # A sum of finite values may overflow; double precision holds it. In vain where one is not finite.
        return means if means.isfinite().all() else (rows.double().abs().sum(1) / self._counts).float()

    def _each(self, values: torch.Tensor) -> torch.Tensor:
        """A value of each block, repeated for each of its elements."""
        return values.repeat_interleave(self.block)[: self.size]
