"""The stage after a codec: general-purpose compression of the packed bytes.

The reader knows the length of the packed bytes, and refuses a body that claims another length before it allocates.
"""

from abc import ABC, abstractmethod

import lz4.block
import zstandard

from common.errors import CodecError
from common.settings.codec_names import STAGES, StageKind
from common.wire.frames import Buffer

_ZSTD_LEVEL = 1
"""On gradients, levels 2 and 3 are slower and no smaller."""


class EntropyStage(ABC):
    """Compresses `raw_bytes` bytes to at most `max_bytes`. An instance keeps a context: one thread at a time."""

    def __init__(self, raw_bytes: int) -> None:
        self.raw_bytes = raw_bytes
        self.max_bytes = raw_bytes

    @abstractmethod
    def compress(self, raw: Buffer) -> bytes: ...

    @abstractmethod
    def decompress(self, body: Buffer) -> Buffer:
        """Return the `raw_bytes` bytes in `body`, perhaps `body` itself.

        Raises CodecError if `body` is damaged, or holds more or fewer bytes. NoStage leaves that check to the codec.
        """


class NoStage(EntropyStage):
    def compress(self, raw: Buffer) -> bytes:
        return bytes(raw)

    def decompress(self, body: Buffer) -> Buffer:
        return body


class Lz4Stage(EntropyStage):
    """One LZ4 block without a header."""

    def __init__(self, raw_bytes: int) -> None:
        super().__init__(raw_bytes)
        self.max_bytes = raw_bytes + raw_bytes // 255 + 16  # LZ4_COMPRESSBOUND of lz4.h

    def compress(self, raw: Buffer) -> bytes:
        compressed: bytes = lz4.block.compress(raw, store_size=False)
        return compressed

    def decompress(self, body: Buffer) -> Buffer:
        try:
            raw: bytes = lz4.block.decompress(body, uncompressed_size=self.raw_bytes)
        except (lz4.block.LZ4BlockError, ValueError) as error:
            raise CodecError(f"lz4 body of {memoryview(body).nbytes} bytes does not decompress: {error}") from error
        if len(raw) != self.raw_bytes:
            raise CodecError(f"lz4 body holds {len(raw)} bytes, not {self.raw_bytes}")
        return raw


class ZstdStage(EntropyStage):
    """One zstd frame with its content size."""

    def __init__(self, raw_bytes: int) -> None:
        super().__init__(raw_bytes)
        self.max_bytes = raw_bytes + (raw_bytes >> 8) + (max(0, (128 << 10) - raw_bytes) >> 11)  # ZSTD_COMPRESSBOUND
        self._compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
        # The compressor needs no window larger than the content, rounded up to a power of two.
        window = max(1 << 10, 1 << (raw_bytes - 1).bit_length())
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=window)

    def compress(self, raw: Buffer) -> bytes:
        return self._compressor.compress(raw)

    def decompress(self, body: Buffer) -> Buffer:
        try:
            # zstandard allocates whatever size the frame states.
            stated = zstandard.get_frame_parameters(body).content_size
            if stated != self.raw_bytes:
                raise CodecError(f"zstd body states {stated} bytes, not {self.raw_bytes}")
            return self._decompressor.decompress(body, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise CodecError(f"zstd body of {memoryview(body).nbytes} bytes does not decompress: {error}") from error


ENTROPY_STAGES: dict[StageKind, type[EntropyStage]] = {"none": NoStage, "lz4": Lz4Stage, "zstd": ZstdStage}
assert tuple(ENTROPY_STAGES) == STAGES, "every stage kind has its class"
