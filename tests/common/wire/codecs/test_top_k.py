import math
import struct

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from common.errors import CodecError
from common.wire.codecs import top_k
from common.wire.codecs.top_k import SAMPLE, TopKCodec
from tests.helpers.bounds import bound
from tests.helpers.vectors import ANY_VALUES, LARGEST, random_vector, round_trip

LONG = 3 * SAMPLE + 11
"""More elements than the sample holds."""
SEVEN = torch.full((2000,), 7.0)


def check(vector: torch.Tensor, fraction: float) -> None:
    codec = TopKCodec(vector.numel(), fraction)
    out = round_trip(codec, vector)
    assert out.isfinite().all()
    assert ((out.double() - vector.double()).abs() <= bound(codec, vector)).all()
    left = (vector.double() - out.double()).square().sum().item()
    kept = codec.count / codec.size
    assert left <= vector.double().square().sum().item() * (1 - kept + 2**-16) + 1e-60, "no contraction"


@given(
    size=st.sampled_from([1, 2, 255, 256, 257, 1000, LONG]),
    fraction=st.sampled_from([1e-5, 0.01, 0.25, 1.0]),
    exponent=st.floats(-150, 128),
    spread=st.sampled_from([0.0, 3.0, 30.0]),
    seed=st.integers(0, 2**32),
)
def test_error_stays_within_the_bound_and_contracts(
    size: int, fraction: float, exponent: float, spread: float, seed: int
) -> None:
    check(random_vector(size, exponent, spread, seed), fraction)


@given(values=ANY_VALUES, fraction=st.floats(0.01, 1.0))
@example([LARGEST, -LARGEST, LARGEST], 0.5)
@example([0.0, 0.0, -1.0, 0.0], 0.75)
def test_so_it_does_for_any_values(values: list[float], fraction: float) -> None:
    check(torch.tensor(values, dtype=torch.float32), fraction)


@pytest.mark.parametrize("size", [300, SAMPLE, SAMPLE + 1, LONG])
@pytest.mark.parametrize("fraction", [1e-4, 0.01, 0.25])
def test_exactly_the_largest_are_sent_whatever_the_sample_says(size: int, fraction: float) -> None:
    vector = random_vector(size, spread=2.0)
    out = round_trip(TopKCodec(size, fraction), vector)
    largest = vector.abs().topk(math.ceil(fraction * size)).indices
    assert sorted(largest.tolist()) == out.nonzero().flatten().tolist()
    assert torch.equal(out[largest], vector[largest].bfloat16().float())


def test_a_sample_that_promises_too_much_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    vector = random_vector(LONG)
    expected = TopKCodec(LONG).encode(vector.numpy())
    monkeypatch.setattr(top_k, "_sample", lambda size, count: (slice(0, SAMPLE), SAMPLE - 1))
    assert TopKCodec(LONG).encode(vector.numpy()) == expected


@pytest.mark.parametrize("nonzero", [0, 1, 3, 400])
def test_fewer_nonzero_elements_than_are_sent(nonzero: int) -> None:
    vector = torch.zeros(LONG)
    vector[torch.randperm(LONG, generator=torch.Generator().manual_seed(0))[:nonzero]] = -2.0
    assert torch.equal(round_trip(TopKCodec(LONG), vector), vector)
    vector = torch.zeros(1000)
    vector[:nonzero] = -2.0
    assert round_trip(TopKCodec(1000), vector).count_nonzero() == min(nonzero, 10)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("count", [1, LONG])
def test_what_is_not_finite_spoils_all(bad: float, count: int) -> None:
    vector = random_vector(LONG)
    vector[-count:] = bad
    assert round_trip(TopKCodec(LONG), vector).isnan().all()


@pytest.mark.parametrize(
    ("size", "fraction", "length"), [(1, 1.0, 4), (256, 1e-4, 4), (257, 0.01, 10), (678400, 0.01, 21532)]
)
def test_raw_bytes(size: int, fraction: float, length: int) -> None:
    codec = TopKCodec(size, fraction)
    assert codec.raw_bytes == len(codec.encode(torch.zeros(size).numpy())) == length


@pytest.mark.parametrize("fraction", [0.0, -1.0, 1.01, math.nan])
def test_a_fraction_is_above_0_and_at_most_1(fraction: float) -> None:
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        TopKCodec(10, fraction)


def body_of(low: list[int], places: list[int], values: tuple[float, ...] = (1.0, 2.0, 3.0)) -> bytes:
    """Of 2000 elements, 3 of which are sent: 3 + 7 + 1 bits of map."""
    bits = sum(1 << 15 - place for place in places)
    return b"".join(struct.pack("<f", value)[2:] for value in values) + bytes(low) + bits.to_bytes(2, "big")


def test_golden_bytes() -> None:
    vector = torch.zeros(2000)
    vector[3], vector[255], vector[1999] = 1.0, 2.0, 3.0
    body = body_of([3, 255, 207], [0, 1, 9])
    assert bytes(TopKCodec(2000, 0.0015).encode(vector.numpy())) == body
    out = torch.empty(2000)
    TopKCodec(2000, 0.0015).decode(body, out.numpy())
    assert torch.equal(out, vector)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (body_of([3, 255, 207], [0, 1]), "marks 2 elements, not 3"),
        (body_of([3, 255, 207], [0, 1, 9, 10]), "marks 4 elements, not 3"),
        (body_of([3, 255, 208], [0, 1, 9]), "not below 2000"),
        (body_of([3, 255, 0], [0, 1, 15]), "not below 2000"),
        (body_of([3, 3, 207], [0, 1, 9]), "do not rise"),
        (body_of([3, 2, 207], [0, 1, 9]), "do not rise"),
    ],
)
def test_impossible_indices_are_refused_and_nothing_written(body: bytes, said: str) -> None:
    out = SEVEN.clone()
    with pytest.raises(CodecError, match=said):
        TopKCodec(2000, 0.0015).decode(body, out.numpy())
    assert torch.equal(out, SEVEN)


@given(st.binary(min_size=11, max_size=11))
def test_any_bytes_are_refused_or_are_the_body_of_a_vector(body: bytes) -> None:
    codec, out = TopKCodec(2000, 0.0015), SEVEN.clone()
    try:
        codec.decode(body, out.numpy())
    except CodecError:
        assert torch.equal(out, SEVEN)
    else:
        assert not out.isfinite().all() or out.count_nonzero() <= 3
