"""Only the largest elements, one in a hundred by default: their values as bfloat16, and their indices.

Indices are Elias-Fano coded: the low byte of each index, then the rest as gaps in unary. The length depends only on the
number of elements and indices: 9.4 bits an index at one in a hundred.
"""

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from common.errors import CodecError
from common.settings.codec_names import TOP_K, CodecKind
from common.wire.codecs.base import Codec, Floats
from common.wire.codecs.floats import Bf16Codec
from common.wire.frames import Buffer

SAMPLE = 1 << 14
"""Elements from which the threshold is estimated."""

Indices = NDArray[np.int64]


class TopKCodec(Codec):
    """The k = ceil(fraction size) elements of largest magnitude; the others become 0.

    Body: k bfloat16 values, the low byte of each index, then a bit map in which the i-th 1 is at (index >> 8) + i;
    indices rise. Always exactly k elements: the sampled threshold only saves sorting the others.

    |x - C(x)|^2 <= (1 - k/size + 2^-16) |x|^2 (L2 norms; the last term is rounding), so that error feedback contracts.
    Error of an element: at most the k-th largest magnitude; of a larger element that of bfloat16.
    A vector with an element that is not finite decodes as NaN throughout.
    """

    name: ClassVar[CodecKind] = "top-k"

    def __init__(self, size: int, fraction: float = TOP_K) -> None:
        super().__init__(size)
        if not 0 < fraction <= 1:
            raise ValueError(f"top-k takes a fraction above 0 and at most 1, not {fraction}")
        self.count = math.ceil(fraction * size)
        self._values = Bf16Codec(self.count)
        self._ones = self.count + (size - 1 >> 8) + 1
        """Bits of the map."""
        self._magnitudes = np.empty(size, np.float32)
        self._ranks = np.arange(self.count)
        self._sampled, self._rank = _sample(size, self.count)

    @property
    def raw_bytes(self) -> int:
        return self._values.raw_bytes + self.count + -(-self._ones // 8)

    def _pack(self, vector: Floats) -> memoryview:
        chosen = self._largest(vector)
        values = vector[chosen]
        if not np.isfinite(values).all():  # NaN and infinity count as the largest
            values.fill(math.nan)
        ones = np.zeros(self._ones, np.uint8)
        ones[(chosen >> 8) + self._ranks] = 1
        low = (chosen & 0xFF).astype(np.uint8)
        return memoryview(b"".join((self._values.encode(values), low.data, np.packbits(ones).data)))

    def _unpack(self, body: Buffer, out: Floats) -> None:
        split = self._values.raw_bytes
        view = memoryview(body).cast("B")
        chosen = self._indices(np.frombuffer(view[split:], np.uint8))
        values = np.empty(self.count, np.float32)
        self._values.decode(view[:split], values)
        if np.isfinite(values).all():
            out.fill(0)
            out[chosen] = values
        else:
            out.fill(math.nan)

    def _indices(self, coded: NDArray[np.uint8]) -> Indices:
        """Return the indices; raises CodecError unless there are k, rising and below `size`."""
        ones: Indices = np.flatnonzero(np.unpackbits(coded[self.count :]))
        if ones.size != self.count:
            raise CodecError(f"top-k body marks {ones.size} elements, not {self.count}")
        chosen = (ones - self._ranks << 8) | coded[: self.count]
        if chosen[-1] >= self.size or (np.diff(chosen) <= 0).any():
            raise CodecError(f"top-k body has indices that do not rise or are not below {self.size}")
        return chosen

    def _largest(self, values: Floats) -> Indices:
        """Return the indices of the k largest magnitudes, rising; NaN counts as the largest."""
        magnitudes = np.abs(values, out=self._magnitudes)
        threshold = np.partition(magnitudes[self._sampled], self._rank)[self._rank]
        chosen: Indices = np.flatnonzero(~(magnitudes < threshold)) if threshold != 0 else np.flatnonzero(magnitudes)
        if chosen.size < self.count and threshold != 0:
            chosen = np.flatnonzero(magnitudes)
        excess = chosen.size - self.count
        if excess > 0:
            chosen = chosen[np.argpartition(magnitudes[chosen], excess)[excess:]]
            chosen.sort()
        elif excess < 0:
            zeros = np.flatnonzero(magnitudes[: self.count] == 0)[:-excess]
            chosen = np.sort(np.concatenate([chosen, zeros]))
        return chosen


def _sample(size: int, count: int) -> tuple[slice | Indices, int]:
    """Return the elements to sample, always the same ones, and the rank, from the smallest, of the threshold in them.

    The rank is so low that fewer than `count` elements reach the threshold in one case of a thousand (three sigma).
    """
    if size <= SAMPLE:
        return slice(None), size - count
    expected = count * SAMPLE / size
    rank = SAMPLE - math.ceil(expected + 3 * math.sqrt(expected) + 3)
    return np.random.default_rng(0).integers(size, size=SAMPLE), max(0, rank)
