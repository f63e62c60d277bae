import struct

import pytest
import torch

from common.errors import CodecError
from common.wire.codecs.ternary import BLOCK, CODES, THRESHOLD, TernaryCodec
from tests.helpers.vectors import SIZES, random_vector, round_trip


@pytest.mark.parametrize("size", SIZES)
def test_agrees_with_one_block_after_another_in_double_precision(size: int) -> None:
    vector = random_vector(size, spread=2.0)
    out = round_trip(TernaryCodec(size), vector)
    for first in range(0, size, BLOCK):
        block = vector[first : first + BLOCK].double()
        kept = block.abs() >= THRESHOLD * block.abs().mean()
        expected = torch.where(kept, block.sign() * block[kept].abs().mean(), 0.0)
        assert torch.allclose(out[first : first + BLOCK].double(), expected, rtol=1e-5, atol=0)


def test_zeros_stay_zeros() -> None:
    vector = random_vector(1000) * (torch.arange(1000) % 3 == 0)
    assert not round_trip(TernaryCodec(1000), vector)[vector == 0].any()
    assert not round_trip(TernaryCodec(1000), torch.zeros(1000)).any()


def test_a_byte_that_is_no_five_trits_is_refused_and_nothing_written() -> None:
    codec, out = TernaryCodec(BLOCK), torch.full((BLOCK,), 7.0)
    body = bytearray(codec.encode(random_vector(BLOCK).numpy()))
    body[20] = CODES
    with pytest.raises(CodecError, match="holds a byte of 243: five trits make at most 242"):
        codec.decode(body, out.numpy())
    assert torch.equal(out, torch.full((BLOCK,), 7.0))


def test_golden_bytes() -> None:
    vector = torch.zeros(BLOCK + 1)
    vector[0], vector[1], vector[64], vector[256] = -2.0, 2.0, 2.0, -2.0
    vector[BLOCK] = 0.5
    codes = bytes([121 - 1 + 3 - 81, 122]) + bytes([121]) * 62 + bytes([122]) + bytes([121]) * 63
    assert bytes(TernaryCodec(BLOCK + 1).encode(vector.numpy())) == struct.pack("<2f", 2.0, 0.5) + codes
