import struct

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from common.wire.codecs.int8 import BLOCK, Int8Codec
from tests.helpers.bounds import bound
from tests.helpers.vectors import LARGEST, random_vector

SIZES = (1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 1000)
LONG = 2 * 256 * BLOCK + 3 * BLOCK + 17
"""More blocks than are quantised at a time, and a short one."""


def round_trip(vector: torch.Tensor) -> torch.Tensor:
    codec = Int8Codec(vector.numel())
    out = torch.empty_like(vector)
    codec.decode(bytes(codec.encode(vector.numpy())), out.numpy())
    return out


@given(
    size=st.sampled_from(SIZES),
    exponent=st.floats(-150, 128),
    spread=st.sampled_from([0.0, 3.0, 30.0]),
    seed=st.integers(0, 2**32),
)
def test_error_stays_within_the_bound(size: int, exponent: float, spread: float, seed: int) -> None:
    check(random_vector(size, exponent, spread, seed))


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40))
@example([LARGEST, -LARGEST, LARGEST / 254])
@example([2.0**-149, -(2.0**-149)])
@example([127 * 2.0**-126, 2.0**-126, 2.0**-127])
@example([0.0, -0.0])
def test_error_stays_within_the_bound_for_any_values(values: list[float]) -> None:
    check(torch.tensor(values, dtype=torch.float32))


def check(vector: torch.Tensor) -> None:
    out = round_trip(vector)
    assert out.isfinite().all()
    assert ((out.double() - vector.double()).abs() <= bound(Int8Codec(vector.numel()), vector)).all()


@pytest.mark.parametrize("size", [*SIZES, LONG])
def test_agrees_with_one_block_after_another_in_double_precision(size: int) -> None:
    vector = random_vector(size, spread=2.0)
    out = round_trip(vector).double()
    for first in range(0, size, BLOCK):
        block = vector[first : first + BLOCK].double()
        step = block.abs().max() / 127
        steps = (out[first : first + BLOCK] / step).round()
        assert torch.allclose(out[first : first + BLOCK], steps * step, rtol=1e-5, atol=0)
        assert ((block / step - steps).abs() <= 0.5 + 1e-4).all()


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, LONG])
def test_raw_bytes_is_one_an_element_and_four_a_block(size: int) -> None:
    codec = Int8Codec(size)
    blocks = (size + BLOCK - 1) // BLOCK
    assert codec.raw_bytes == len(codec.encode(torch.zeros(size).numpy())) == size + 4 * blocks


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [0, BLOCK - 1, BLOCK + 7, 2 * BLOCK, 2 * BLOCK + 9])
def test_what_is_not_finite_is_seen_and_stays_in_its_block(bad: float, place: int) -> None:
    vector = random_vector(2 * BLOCK + 10)
    vector[place] = bad
    out = round_trip(vector)
    block = torch.arange(out.numel()) // BLOCK == place // BLOCK
    assert not out[block].isfinite().any()
    assert out[~block].isfinite().all()


def test_zeros_stay_zeros_beside_large_values() -> None:
    vector = random_vector(LONG) * (torch.arange(LONG) % 3 == 0)
    assert not round_trip(vector)[vector == 0].any()
    assert not round_trip(torch.zeros(LONG)).any()


def test_a_second_vector_is_not_touched_by_the_first() -> None:
    codec = Int8Codec(LONG)
    codec.encode(random_vector(LONG, seed=1).numpy())
    vector = random_vector(LONG, seed=2)
    assert bytes(codec.encode(vector.numpy())) == bytes(Int8Codec(LONG).encode(vector.numpy()))


def test_golden_bytes() -> None:
    vector = torch.zeros(BLOCK + 2)
    vector[:3] = torch.tensor([127.0, -126.0, 0.6])
    vector[BLOCK:] = torch.tensor([-0.5, 0.25])
    scales = struct.pack("<2f", (1 - 2**-22), 0.5 / 127 * (1 - 2**-22))
    codes = bytes([127, 130, 1]) + bytes(BLOCK - 3) + bytes([129, 64])
    assert bytes(Int8Codec(BLOCK + 2).encode(vector.numpy())) == scales + codes
