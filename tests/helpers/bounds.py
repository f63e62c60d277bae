"""Bounds on the absolute error of each element after a round trip through a codec, block by block in float64."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from common.wire.codecs import int8, sign, ternary
from common.wire.codecs.base import Codec
from common.wire.codecs.floats import Bf16Codec, Fp16Codec, NoneCodec
from common.wire.codecs.int8 import Int8Codec
from common.wire.codecs.registry import PackedCodec
from common.wire.codecs.sign import SignCodec
from common.wire.codecs.ternary import TernaryCodec
from common.wire.codecs.top_k import TopKCodec

ROUNDING = 2**-20
"""Upper bound of float32's relative error in a sum over a block."""
UNDERFLOW = 2.0**-117
"""Upper bound of a sum's absolute error where numbers below 2^-126 are flushed to 0."""


def bound(codec: Codec | PackedCodec, vector: Tensor) -> Tensor:
    """Returns the bounds for a finite `vector`, shape (size,), float64; each codec's docstring states its bound."""
    magnitudes = vector.double().abs()
    match codec.codec if isinstance(codec, PackedCodec) else codec:
        case NoneCodec():
            return torch.zeros_like(magnitudes)
        case Fp16Codec():
            return _half(magnitudes, torch.float16)
        case Bf16Codec():
            return _half(magnitudes, torch.bfloat16)
        case TopKCodec(count=count):
            least = magnitudes.topk(count).values[-1]
            rounding = _half(magnitudes, torch.bfloat16)
            return torch.where(magnitudes > least, rounding, rounding.clamp(min=least.item()))
        case Int8Codec():
            return _blocks(magnitudes, int8.BLOCK, _int8)
        case SignCodec():
            return _blocks(magnitudes, sign.BLOCK, _sign)
        case TernaryCodec():
            return _blocks(magnitudes, ternary.BLOCK, _ternary)
    raise TypeError(f"no bound for {codec}")


def _blocks(magnitudes: Tensor, block: int, of_block: Callable[[Tensor], float]) -> Tensor:
    return torch.cat([torch.full_like(one, of_block(one)) for one in torch.split(magnitudes, block)])


def _half(magnitudes: Tensor, dtype: torch.dtype) -> Tensor:
    info = torch.finfo(dtype)
    rounding = (magnitudes * (info.eps / 2)).clamp(min=info.tiny * info.eps / 2)
    return torch.maximum(rounding, magnitudes - info.max)


def _int8(block: Tensor) -> float:
    scale = max(block.max().item() / 127, 2.0**-126)
    return scale * (0.5 + 2**-14)


def _sign(block: Tensor) -> float:
    scale = block.mean().item()
    return max(scale, block.max().item() - scale) + ROUNDING * scale + UNDERFLOW


def _ternary(block: Tensor) -> float:
    threshold = ternary.THRESHOLD * block.mean().item()
    scale = block[block >= threshold].mean().item()
    return max(threshold, scale - threshold, block.max().item() - scale) + ROUNDING * scale + UNDERFLOW
