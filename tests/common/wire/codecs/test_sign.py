import struct

import pytest
import torch

from common.wire.codecs.sign import BLOCK, SignCodec
from tests.helpers.vectors import SIZES, random_vector, round_trip


@pytest.mark.parametrize("size", SIZES)
def test_agrees_with_one_block_after_another_in_double_precision(size: int) -> None:
    vector = random_vector(size, spread=2.0)
    out = round_trip(SignCodec(size), vector)
    for first in range(0, size, BLOCK):
        block = vector[first : first + BLOCK].double()
        expected = (2 * (block >= 0).double() - 1) * block.abs().mean()
        assert torch.allclose(out[first : first + BLOCK].double(), expected, rtol=1e-5, atol=0)


def test_golden_bytes() -> None:
    vector = torch.zeros(BLOCK + 2)
    vector[:3] = torch.tensor([-128.0, 64.0, -64.0])
    vector[BLOCK:] = torch.tensor([-0.5, 0.25])
    codes = bytes([0b01011111]) + b"\xff" * 31 + bytes([0b01111111]) + b"\xff" * 31
    assert bytes(SignCodec(BLOCK + 2).encode(vector.numpy())) == struct.pack("<2f", 1.0, 0.375) + codes
