"""Float32 as it is: four bytes an element, lossless."""

from __future__ import annotations

from typing import ClassVar

import torch

from common.settings.codec_names import CodecKind
from common.wire.codecs.base import Codec
from common.wire.codecs.buffers import as_bytes, read
from common.wire.frames import Buffer


class NoneCodec(Codec):
    name: ClassVar[CodecKind] = "none"

    @property
    def raw_bytes(self) -> int:
        return 4 * self.size

    def _pack(self, vector: torch.Tensor) -> memoryview:
        return as_bytes(vector)

    def _unpack(self, body: Buffer, out: torch.Tensor) -> None:
        read(body, 0, torch.float32, out)
