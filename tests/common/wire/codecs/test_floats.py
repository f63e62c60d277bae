import struct

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from common.wire.codecs.floats import Bf16Codec, Fp16Codec, HalfCodec, NoneCodec
from tests.helpers.bounds import bound

HALVES = pytest.mark.parametrize("made", [Fp16Codec, Bf16Codec])
DTYPES: dict[type[HalfCodec], torch.dtype] = {Fp16Codec: torch.float16, Bf16Codec: torch.bfloat16}
LARGEST = torch.finfo(torch.float32).max
magnitudes = st.builds(
    lambda mantissa, exponent: mantissa * 2.0**exponent,
    st.floats(-1.875, 1.875),
    st.integers(-149, 127),
)
vectors = st.lists(
    magnitudes | st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40
).map(lambda values: torch.tensor(values, dtype=torch.float32))


def round_trip(codec: HalfCodec, vector: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(vector)
    codec.decode(codec.encode(vector.numpy()), out.numpy())
    return out


@given(st.lists(st.floats(width=32), min_size=1, max_size=40))
def test_every_bit_of_float32_comes_back(values: list[float]) -> None:
    vector = torch.tensor(values)
    codec = NoneCodec(len(values))
    out = torch.empty_like(vector)
    codec.decode(codec.encode(vector.numpy()), out.numpy())
    assert torch.equal(out.view(torch.int32), vector.view(torch.int32))


@HALVES
@given(vectors)
@example(torch.tensor([0.0, -0.0, 2.0**-149, 2.0**-25, 2.0**-24, 2.0**-14, 2.0**-134, 2.0**-126]))
@example(torch.tensor([65504.0, 65519.996, 65520.0, -65520.0, 1e10, LARGEST, -LARGEST]))
def test_error_stays_within_the_bound_and_finite(made: type[HalfCodec], vector: torch.Tensor) -> None:
    codec = made(vector.numel())
    out = round_trip(codec, vector)
    assert out.isfinite().all()
    assert ((out.double() - vector.double()).abs() <= bound(codec, vector)).all()


@HALVES
def test_the_bound_is_reached(made: type[HalfCodec]) -> None:
    codec = made(1)
    halfway = torch.tensor([1.0 + torch.finfo(DTYPES[made]).eps / 2])
    assert (round_trip(codec, halfway) - halfway).abs().item() == pytest.approx(bound(codec, halfway).item(), rel=0.01)


def test_fp16_saturates_at_65504() -> None:
    out = round_trip(Fp16Codec(4), torch.tensor([1e6, -1e6, 65519.0, 3.0]))
    assert out.tolist() == [65504.0, -65504.0, 65504.0, 3.0]


@HALVES
def test_what_is_not_finite_stays_so_and_spoils_nothing_else(made: type[HalfCodec]) -> None:
    vector = torch.tensor([1.0, float("inf"), LARGEST, float("nan"), -float("inf"), -2.0])
    out = round_trip(made(6), vector)
    assert out.isfinite().tolist() == [True, False, True, False, False, True]
    assert out[[0, 1, 4, 5]].tolist() == [1.0, float("inf"), -float("inf"), -2.0]


@HALVES
def test_a_sum_that_overflows_changes_nothing(made: type[HalfCodec]) -> None:
    vector = torch.full((100,), 60000.0)
    assert torch.equal(round_trip(made(100), vector), vector.to(DTYPES[made]).float())


def test_golden_bytes() -> None:
    vector = torch.tensor([1.0, -2.5])
    assert bytes(NoneCodec(2).encode(vector.numpy())) == struct.pack("<2f", 1.0, -2.5)
    assert bytes(Fp16Codec(2).encode(vector.numpy())) == struct.pack("<2e", 1.0, -2.5)
    assert bytes(Bf16Codec(2).encode(vector.numpy())) == bytes.fromhex("803f20c0")
