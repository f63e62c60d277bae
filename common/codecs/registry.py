"""Names to codecs."""

from __future__ import annotations

from common.codecs.base import Codec
from common.codecs.entropy import ENTROPY_STAGES
from common.codecs.half import Bf16Codec, Fp16Codec
from common.codecs.int8 import Int8Codec
from common.codecs.names import CODECS, NAMES, PARTS, CodecKind
from common.codecs.none import NoneCodec
from common.codecs.packed import PackedCodec
from common.errors import CodecError

__all__ = ["CODEC_CLASSES", "NAMES", "make"]

CODEC_CLASSES: dict[CodecKind, type[Codec]] = {
    codec.name: codec for codec in (NoneCodec, Fp16Codec, Bf16Codec, Int8Codec)
}
assert tuple(CODEC_CLASSES) == CODECS, "every codec kind has its class"


def make(name: str, size: int) -> PackedCodec:
    """The codec called `name`, for vectors of `size` elements.

    Raises:
        CodecError: no codec has that name.
        ValueError: `size` is not positive.
    """
    if name not in PARTS:
        raise CodecError(f"no codec is called {name!r}; known are {', '.join(NAMES)}")
    kind, stage = PARTS[name]
    codec = CODEC_CLASSES[kind](size)
    return PackedCodec(name, codec, ENTROPY_STAGES[stage](codec.raw_bytes))
