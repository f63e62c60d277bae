"""The codec of each name."""

from __future__ import annotations

from common.errors import CodecError
from common.settings.codec_names import CODECS, NAMES, PARTS, TOP_K, CodecKind
from common.wire.codecs.base import Codec
from common.wire.codecs.entropy import ENTROPY_STAGES
from common.wire.codecs.half import Bf16Codec, Fp16Codec
from common.wire.codecs.int8 import Int8Codec
from common.wire.codecs.none import NoneCodec
from common.wire.codecs.packed import PackedCodec
from common.wire.codecs.sign import SignCodec
from common.wire.codecs.ternary import TernaryCodec
from common.wire.codecs.top_k import TopKCodec

__all__ = ["CODEC_CLASSES", "NAMES", "make"]

CODEC_CLASSES: dict[CodecKind, type[Codec]] = {
    codec.name: codec for codec in (NoneCodec, Fp16Codec, Bf16Codec, Int8Codec, TopKCodec, SignCodec, TernaryCodec)
}
assert tuple(CODEC_CLASSES) == CODECS, "every codec kind has its class"


def make(name: str, size: int, top_k: float = TOP_K) -> PackedCodec:
    """The codec called `name`, for vectors of `size` elements.

    Args:
        top_k: fraction of the elements that top-k sends, from the settings; other codecs ignore it.

    Raises:
        CodecError: no codec has that name.
        ValueError: `size` is not positive, `top_k` not in (0, 1].
    """
    if name not in PARTS:
        raise CodecError(f"no codec is called {name!r}; known are {', '.join(NAMES)}")
    kind, stage = PARTS[name]
    codec = TopKCodec(size, top_k) if kind == "top-k" else CODEC_CLASSES[kind](size)
    return PackedCodec(name, codec, ENTROPY_STAGES[stage](codec.raw_bytes))
