"""The codec of each name, such as "int8+zstd": a codec kind, and the entropy stage behind it."""

from common.errors import CodecError
from common.settings.codec_names import CODECS, NAMES, PARTS, TOP_K, CodecKind
from common.wire.codecs.base import Codec, Floats
from common.wire.codecs.buffers import nbytes
from common.wire.codecs.entropy import ENTROPY_STAGES, EntropyStage
from common.wire.codecs.floats import Bf16Codec, Fp16Codec, NoneCodec
from common.wire.codecs.int8 import Int8Codec
from common.wire.codecs.sign import SignCodec
from common.wire.codecs.ternary import TernaryCodec
from common.wire.codecs.top_k import TopKCodec
from common.wire.frames import Buffer

CODEC_CLASSES: dict[CodecKind, type[Codec]] = {
    codec.name: codec for codec in (NoneCodec, Fp16Codec, Bf16Codec, Int8Codec, TopKCodec, SignCodec, TernaryCodec)
}
assert tuple(CODEC_CLASSES) == CODECS, "every codec kind has its class"


class PackedCodec:
    """A codec followed by an entropy stage; no body is longer than `max_bytes`. One thread at a time."""

    def __init__(self, name: str, codec: Codec, stage: EntropyStage) -> None:
        self.name = name
        self.size = codec.size
        self.codec = codec
        self.stage = stage
        self.max_bytes = stage.max_bytes

    def encode(self, vector: Floats) -> bytes:
        """Return the body for `vector`, shape (size,), a contiguous float32 array; raises ValueError for another."""
        return self.stage.compress(self.codec.encode(vector))

    def decode(self, body: Buffer, out: Floats) -> None:
        """Unpack `body` into `out`, shape (size,), a contiguous float32 array; raises ValueError for another.

        The receiver must check that the values are finite.
        Raises CodecError, with `out` unchanged, if `body` cannot be of this codec.
        """
        self.codec.decode(self._packed(body), out)

    def read(self, body: Buffer, scratch: Floats) -> Floats:
        """Return the same vector, to be read only: a view of `body` if that holds plain float32, else `scratch`."""
        return self.codec.read(self._packed(body), scratch)

    def _packed(self, body: Buffer) -> Buffer:
        if nbytes(body) > self.max_bytes:
            raise CodecError(
                f"{self.name} body of {self.size} elements is at most {self.max_bytes} bytes, not {nbytes(body)}"
            )
        return self.stage.decompress(body)


def longest(size: int, top_k: float = TOP_K) -> int:
    """Return the most bytes of a body of `size` elements, whatever its codec."""
    return max(make(name, size, top_k).max_bytes for name in NAMES)


def make(name: str, size: int, top_k: float = TOP_K) -> PackedCodec:
    """Make the codec called `name`, for vectors of `size` elements; `top_k`: fraction of them that top-k sends.

    Raises CodecError for an unknown name, ValueError for a `size` below 1 or a `top_k` that is not in (0, 1].
    """
    if name not in PARTS:
        raise CodecError(f"no codec is called {name!r}; known are {', '.join(NAMES)}")
    kind, stage = PARTS[name]
    codec = TopKCodec(size, top_k) if kind == "top-k" else CODEC_CLASSES[kind](size)
    return PackedCodec(name, codec, ENTROPY_STAGES[stage](codec.raw_bytes))
