"""Vectors for the tests of codecs."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from common.wire.codecs.base import Codec

LARGEST = torch.finfo(torch.float32).max
SIZES = (1, 2, 255, 256, 257, 319, 320, 321, 1000)
"""Sizes with short blocks, whole blocks, and whole blocks followed by a short one."""
ANY_VALUES = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40)


def random_vector(size: int, exponent: float = 0.0, spread: float = 0.0, seed: int = 0) -> torch.Tensor:
    """Returns normal values times 2^(exponent + spread * normal), clamped to the range of float32."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(size, generator=generator, dtype=torch.float64)
    powers = exponent + spread * torch.randn(size, generator=generator, dtype=torch.float64)
    return (values * powers.exp2()).clamp(-LARGEST, LARGEST).float()


def round_trip(codec: Codec, vector: torch.Tensor) -> torch.Tensor:
    """Returns `vector` after encoding and decoding with `codec`."""
    out = torch.empty_like(vector)
    codec.decode(bytes(codec.encode(vector.numpy())), out.numpy())
    return out
