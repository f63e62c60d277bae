"""One bit an element: its sign, times the mean magnitude of its block of 256 (scaled sign, arXiv 1901.09847)."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from common.settings.codec_names import CodecKind
from common.wire.codecs.base import Floats
from common.wire.codecs.blocks import BlockCodec

BLOCK = 256


class SignCodec(BlockCodec):
    """Per block of B elements a float32 scale s = mean|x|; per element a bit, 1 for 0 and above.

    This scale minimises the error: |x - C(x)|^2 = |x|^2 - B s^2 <= (1 - 1/B) |x|^2 in each block (L2 norms), so that
    error feedback contracts. Error of an element: at most max(s, max|x| - s), and 2^-20 s + 2^-117 for rounding.
    """

    name: ClassVar[CodecKind] = "sign"
    block = BLOCK
    code_bytes = BLOCK // 8

    def _quantise(self, rows: Floats, scales: Floats, codes: NDArray[np.uint8]) -> None:
        scales[:] = self._means(rows)
        codes[:] = np.packbits(rows >= 0, axis=1)

    def _signs(self, codes: NDArray[np.uint8]) -> NDArray[np.int8]:
        signs = np.unpackbits(codes, axis=1).view(np.int8)
        signs *= 2
        signs -= 1
        return signs
