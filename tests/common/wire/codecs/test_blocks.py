import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from common.wire.codecs.blocks import BlockCodec
from common.wire.codecs.sign import SignCodec
from common.wire.codecs.ternary import TernaryCodec
from tests.helpers.bounds import ROUNDING, bound
from tests.helpers.vectors import ANY_VALUES, LARGEST, SIZES, random_vector, round_trip

EVERY = pytest.mark.parametrize("kind", [SignCodec, TernaryCodec])
CONTRACTION: dict[type[BlockCodec], float] = {SignCodec: 1.0, TernaryCodec: 0.09}
"""Of a block of n values, what is lost has at most 1 - this / n of the square sum; stated by each codec."""


def check(kind: type[BlockCodec], vector: torch.Tensor) -> None:
    codec = kind(vector.numel())
    out = round_trip(codec, vector)
    assert out.isfinite().all()
    assert ((out.double() - vector.double()).abs() <= bound(codec, vector)).all()
    for first in range(0, vector.numel(), kind.block):
        block, got = vector[first : first + kind.block].double(), out[first : first + kind.block].double()
        left, most = (block - got).square().sum().item(), 1 - CONTRACTION[kind] / block.numel() + 3 * ROUNDING
        assert left <= block.square().sum().item() * most + 1e-60, "no contraction"


@EVERY
@given(
    size=st.sampled_from(SIZES),
    exponent=st.floats(-150, 128),
    spread=st.sampled_from([0.0, 3.0, 30.0]),
    seed=st.integers(0, 2**32),
)
def test_error_stays_within_the_bound_and_contracts(
    kind: type[BlockCodec], size: int, exponent: float, spread: float, seed: int
) -> None:
    check(kind, random_vector(size, exponent, spread, seed))


@EVERY
@given(values=ANY_VALUES)
def test_so_it_does_for_any_values(kind: type[BlockCodec], values: list[float]) -> None:
    check(kind, torch.tensor(values, dtype=torch.float32))


@EVERY
def test_a_block_of_the_largest_numbers_comes_back(kind: type[BlockCodec]) -> None:
    vector = torch.full((kind.block + 3,), -LARGEST)
    assert torch.allclose(round_trip(kind(kind.block + 3), vector), vector)


@EVERY
def test_raw_bytes_is_four_and_the_codes_a_block(kind: type[BlockCodec]) -> None:
    for size in (1, kind.block - 1, kind.block, kind.block + 1, 10 * kind.block):
        codec = kind(size)
        blocks = (size + kind.block - 1) // kind.block
        assert codec.raw_bytes == len(codec.encode(torch.zeros(size).numpy())) == blocks * (4 + kind.code_bytes)


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
    codec.encode(random_vector(size, seed=1).numpy())
    round_trip(codec, random_vector(size, seed=3))
    vector = random_vector(size, seed=2)
    assert bytes(codec.encode(vector.numpy())) == bytes(kind(size).encode(vector.numpy()))


@EVERY
def test_a_scale_is_of_its_own_block(kind: type[BlockCodec]) -> None:
    vector = torch.cat([torch.full((kind.block,), 3.0), torch.zeros(kind.block), torch.full((7,), -0.25)])
    assert torch.equal(round_trip(kind(vector.numel()), vector).abs(), vector.abs())
