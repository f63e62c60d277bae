"""1.6 bits an element: minus, zero or plus the scale of its block of 320 (thresholds as in arXiv 1605.04711).

TernGrad (arXiv 1705.07878) samples the same three values so that the mean is unbiased. With error feedback the bias is
corrected anyway, and a fixed threshold has about a third of the error (L2 norm, normal values).
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from common.errors import CodecError
from common.settings.codec_names import CodecKind
from common.wire.codecs.arithmetic import convert
from common.wire.codecs.base import Floats
from common.wire.codecs.blocks import BlockCodec

BLOCK = 320
TRITS = 5
"""Trits per byte: 3^5 = 243 codes fit."""
CODES = 3**TRITS
THRESHOLD = 0.7
"""Times the mean magnitude: with normal values, within 1 % of the threshold that has the least error."""
_ZEROS = np.uint8(CODES // 2)
"""The byte of five zeros."""


class TernaryCodec(BlockCodec):
    """Per block: a threshold d = 0.7 mean|x|, and a float32 scale s, the mean |x| of those elements with |x| >= d.

    Elements below d become 0, the others s with their sign. A byte holds five trits, those of elements j, j + 64, ...,
    j + 256 of a block. With m elements kept, |x - C(x)|^2 = |x|^2 - m s^2 <= (1 - 0.09/B) |x|^2 (L2 norms, B elements),
    so that error feedback contracts. Error of an element: at most max(d, s - d, max|x| - s), and 2^-20 s + 2^-117 for
    rounding.
    """

    name: ClassVar[CodecKind] = "ternary"
    block = BLOCK
    code_bytes = BLOCK // TRITS

    def __init__(self, size: int) -> None:
        super().__init__(size)
        # Kept, because allocating them for each gradient takes several times as long as filling them.
        self._above = np.empty((self.blocks, BLOCK), np.bool_)
        self._below = np.empty_like(self._above)

    def _quantise(self, rows: Floats, scales: Floats, codes: NDArray[np.uint8]) -> None:
        trits = self._trits(rows)
        scales[:] = self._scales_of(rows, trits)
        planes = trits.reshape(self.blocks, TRITS, self.code_bytes)
        packed = codes.view(np.int8)
        packed[:] = planes[:, TRITS - 1]
        for place in reversed(range(TRITS - 1)):
            packed *= 3
            packed += planes[:, place]
        codes += _ZEROS

    def _signs(self, codes: NDArray[np.uint8]) -> NDArray[np.int8]:
        if codes.max() >= CODES:
            raise CodecError(f"ternary body holds a byte of {codes.max()}: five trits make at most {CODES - 1}")
        signs = np.empty((self.blocks, TRITS, self.code_bytes), np.int8)
        for place in range(TRITS):
            rest = codes // np.uint8(3)
            signs[:, place] = (codes - 3 * rest).view(np.int8) - 1
            codes = rest
        return signs.reshape(self.blocks, self.block)

    def _trits(self, rows: Floats) -> NDArray[np.int8]:
        """Return -1, 0 or 1 for each element, valid until the next call; all 0 in a block that holds NaN."""
        thresholds = self._means(rows)[:, np.newaxis] * np.float32(THRESHOLD)
        np.greater_equal(rows, thresholds, out=self._above)
        np.less_equal(rows, -thresholds, out=self._below)
        trits = self._above.view(np.int8)
        trits -= self._below.view(np.int8)
        return trits

    def _scales_of(self, rows: Floats, trits: NDArray[np.int8]) -> Floats:
        """Return the mean magnitude of each block's elements that are kept; not finite if an element is not."""
        signs = self._scratch
        convert(trits, signs)
        kept = np.maximum(np.einsum("ij,ij->i", signs, signs), np.float32(1))
        scales: Floats = np.einsum("ij,ij->i", rows, signs) / kept
        if not np.isfinite(scales).all():  # a sum of finite values may have overflowed
            scales = ((rows.astype(np.float64) * signs).sum(1) / kept).astype(np.float32)
        return scales
