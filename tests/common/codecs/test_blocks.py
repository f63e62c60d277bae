import pytest
import torch

from common.codecs.blocks import BlockCodec
from common.codecs.sign import SignCodec
from common.codecs.ternary import TernaryCodec
from tests.helpers.vectors import random_vector, round_trip

EVERY = pytest.mark.parametrize("kind", [SignCodec, TernaryCodec])


@EVERY
def test_raw_bytes_is_four_and_the_codes_a_block(kind: type[BlockCodec]) -> None:
    for size in (1, kind.block - 1, kind.block, kind.block + 1, 10 * kind.block):
        codec = kind(size)
        blocks = (size + kind.block - 1) // kind.block
        assert codec.raw_bytes == len(codec.encode(torch.zeros(size))) == blocks * (4 + kind.code_bytes)


@EVERY
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("block", [0, 1, 2])
@pytest.mark.parametrize("place", [0, 9])
def test_what_is_not_finite_is_seen_and_stays_in_its_block(
    kind: type[BlockCodec], bad: float, block: int, place: int
) -> None:
    vector = random_vector(2 * kind.block + 10)
    vector[block * kind.block + place] = bad
    out = round_trip(kind(vector.numel()), vector)
    spoilt = torch.arange(out.numel()) // kind.block == block
    assert not out[spoilt].isfinite().any()
    assert out[~spoilt].isfinite().all()


@EVERY
def test_a_second_vector_is_not_touched_by_the_first(kind: type[BlockCodec]) -> None:
    size = 2 * kind.block + 17
    codec = kind(size)
    codec.encode(random_vector(size, seed=1))
    round_trip(codec, random_vector(size, seed=3))
    vector = random_vector(size, seed=2)
    assert bytes(codec.encode(vector)) == bytes(kind(size).encode(vector))


@EVERY
def test_a_scale_is_of_its_own_block(kind: type[BlockCodec]) -> None:
    vector = torch.cat([torch.full((kind.block,), 3.0), torch.zeros(kind.block), torch.full((7,), -0.25)])
    assert torch.equal(round_trip(kind(vector.numel()), vector).abs(), vector.abs())
