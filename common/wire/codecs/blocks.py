"""Base of the codecs that send one scale for each block of elements and a few bits for each element."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from common.wire.codecs.base import Codec
from common.wire.codecs.buffers import as_bytes, read
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
        packed = torch.empty(self.raw_bytes, dtype=torch.uint8)
        self._body = as_bytes(packed)
        self._scales = packed[: 4 * self.blocks].view(torch.float32)
        self._codes = packed[4 * self.blocks :].numpy().reshape(self.blocks, self.code_bytes)
        self._rows = torch.zeros(self.blocks, self.block)
        """The vector in blocks, padded with zeros."""
        self._scratch = torch.empty(self.blocks, self.block)
        self._read_scales = torch.empty(self.blocks)
        self._counts = torch.full((self.blocks,), float(self.block))
        self._counts[-1] = size - (self.blocks - 1) * self.block

    @property
    def raw_bytes(self) -> int:
        return (4 + self.code_bytes) * -(-self.size // self.block)

    @abstractmethod
    def _quantise(self, rows: torch.Tensor, scales: torch.Tensor, codes: NDArray[np.uint8]) -> None:
        """Writes the scale and the codes of each of the `rows`, shape (blocks, block)."""

    @abstractmethod
    def _signs(self, codes: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Each element divided by its scale, shape (blocks, block); raises CodecError for codes that do not exist."""

    def _pack(self, vector: torch.Tensor) -> memoryview:
        self._rows.view(-1)[: self.size].copy_(vector)
        self._quantise(self._rows, self._scales, self._codes)
        return self._body

    def _unpack(self, body: Buffer, out: torch.Tensor) -> None:
        signs = self._signs(np.frombuffer(body, np.uint8, offset=4 * self.blocks).reshape(self._codes.shape))
        read(body, 0, torch.float32, self._read_scales)
        rows = self._scratch.copy_(torch.from_numpy(signs)).mul_(self._read_scales.unsqueeze(1))
        out.copy_(rows.view(-1)[: self.size])

    def _means(self, rows: torch.Tensor) -> torch.Tensor:
        """The mean magnitude of each block; NaN and infinity propagate."""
        means = torch.abs(rows, out=self._scratch).sum(1).div_(self._counts)
        # A sum of finite values may overflow float32, but not float64.
        return means if means.isfinite().all() else (rows.double().abs().sum(1) / self._counts).float()
