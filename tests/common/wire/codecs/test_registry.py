import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import CodecError
from common.settings.codec_names import NAMES, TOP_K
from common.wire.codecs.registry import longest, make
from tests.helpers.bounds import bound
from tests.helpers.examples import examples

EVERY = pytest.mark.parametrize("name", NAMES)
SIZE = 300
FEW = settings(max_examples=examples(20))
"""Enough for each of so many names."""
PACKED = {name: make(name, SIZE) for name in NAMES}


@EVERY
def test_every_name_makes_a_codec_that_bears_it(name: str) -> None:
    packed = make(name, 10)
    assert packed.name == name
    assert packed.size == 10
    assert packed.codec.name == name.partition("+")[0]


def test_top_k_takes_its_fraction_and_the_others_none() -> None:
    for fraction, count in ((0.1, 10), (0.25, 25)):
        packed, out = make("top-k+lz4", 100, fraction), torch.empty(100)
        packed.decode(packed.encode(torch.arange(1.0, 101.0).numpy()), out.numpy())
        assert out.count_nonzero() == count
    assert make("top-k", 100).codec.raw_bytes == make("top-k", 100, TOP_K).codec.raw_bytes
    assert make("int8", 100, 0.1).codec.raw_bytes == make("int8", 100).codec.raw_bytes
    with pytest.raises(ValueError, match="fraction"):
        make("top-k", 100, 0.0)


@pytest.mark.parametrize("name", ["", "fp8", "int8+", "int8+none", "+lz4", "int8+zstd+lz4", "INT8"])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(CodecError, match=r"known are none, .*int8\+zstd"):
        make(name, 10)


def gradient(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(SIZE, generator=generator) * (torch.rand(SIZE, generator=generator) < 0.15)


@EVERY
def test_round_trip_stays_within_the_bound(name: str) -> None:
    packed, vector, out = make(name, SIZE), gradient(), torch.empty(SIZE)
    body = packed.encode(vector.numpy())
    packed.decode(body, out.numpy())
    assert ((out - vector).abs() <= bound(packed, vector)).all()
    assert len(body) <= packed.max_bytes


@EVERY
def test_what_is_read_is_what_is_decoded(name: str) -> None:
    packed, decoded, scratch = make(name, SIZE), torch.empty(SIZE), torch.full((SIZE,), torch.nan)
    body = packed.encode(gradient().numpy())
    packed.decode(body, decoded.numpy())
    read = packed.read(memoryview(body), scratch.numpy())
    assert (read == decoded.numpy()).all()
    assert scratch.isnan().all() == (packed.codec.name == "none")
    with pytest.raises(CodecError):
        packed.read(body[:-1], scratch.numpy())


@EVERY
def test_a_body_is_its_own_memory(name: str) -> None:
    packed = make(name, SIZE)
    first = packed.encode(gradient(1).numpy())
    kept = bytes(bytearray(first))
    packed.encode(gradient(2).numpy())
    packed.decode(packed.encode(gradient(3).numpy()), torch.empty(SIZE).numpy())
    assert isinstance(first, bytes)
    assert first == kept


@EVERY
@FEW
@given(body=st.binary(max_size=1500))
def test_hostile_bytes_raise_codec_error_and_write_nothing(name: str, body: bytes) -> None:
    out = torch.full((SIZE,), 7.0)
    try:
        PACKED[name].decode(body, out.numpy())
    except CodecError:
        assert torch.equal(out, torch.full((SIZE,), 7.0))


@EVERY
@FEW
@given(body=st.binary(min_size=4 * SIZE, max_size=4 * SIZE))
def test_any_bytes_of_the_right_length_decode_or_are_refused_whole(name: str, body: bytes) -> None:
    packed, out = PACKED[name], torch.full((SIZE,), 7.0)
    try:
        packed.decode(packed.stage.compress(body[: packed.codec.raw_bytes]), out.numpy())
    except CodecError:
        assert packed.codec.name in ("top-k", "ternary"), "the others take any bytes"
        assert torch.equal(out, torch.full((SIZE,), 7.0))


@EVERY
@FEW
@given(seed=st.integers(0, 100), cut=st.integers(1, 100))
def test_cut_and_extended_bodies_are_refused(name: str, seed: int, cut: int) -> None:
    packed = PACKED[name]
    body = packed.encode(gradient(seed).numpy())
    for damaged in (body[:-cut], body + bytes(cut)):
        with pytest.raises(CodecError):
            packed.decode(damaged, torch.empty(SIZE).numpy())


@EVERY
def test_a_body_that_is_too_long_is_refused_unread(name: str) -> None:
    packed = make(name, SIZE)
    with pytest.raises(CodecError, match=f"at most {packed.max_bytes} bytes"):
        packed.decode(bytes(packed.max_bytes + 1), torch.empty(SIZE).numpy())


@EVERY
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_never_comes_out_finite(name: str, bad: float) -> None:
    packed, vector, out = make(name, SIZE), gradient(), torch.empty(SIZE)
    vector[SIZE - 2] = bad
    packed.decode(packed.encode(vector.numpy()), out.numpy())
    assert not out[SIZE - 2].isfinite()


def test_no_body_is_longer_than_the_longest() -> None:
    assert longest(SIZE) == max(packed.max_bytes for packed in PACKED.values())
