import random
import tracemalloc
from collections.abc import Callable

import lz4.block
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from common.errors import CodecError
from common.wire.codecs.entropy import ENTROPY_STAGES, EntropyStage, Lz4Stage, NoStage, ZstdStage

STAGES = pytest.mark.parametrize("stage", ENTROPY_STAGES.values(), ids=ENTROPY_STAGES)
COMPRESSING = pytest.mark.parametrize("stage", [Lz4Stage, ZstdStage])
BOMB = 64 << 20


@STAGES
@given(st.binary(min_size=1, max_size=2000))
def test_round_trip(stage: type[EntropyStage], raw: bytes) -> None:
    made = stage(len(raw))
    body = made.compress(memoryview(raw))
    assert isinstance(body, bytes)
    assert bytes(made.decompress(memoryview(body))) == raw


@STAGES
@pytest.mark.parametrize("size", [1, 15, 1000, (128 << 10) - 1, 128 << 10, 300_000])
def test_no_body_is_longer_than_max_bytes(stage: type[EntropyStage], size: int) -> None:
    made = stage(size)
    raw = random.Random(0).randbytes(size)
    body = made.compress(raw)
    assert len(body) <= made.max_bytes <= 1.01 * size + 80
    assert bytes(made.decompress(body)) == raw


@COMPRESSING
def test_zeros_shrink(stage: type[EntropyStage]) -> None:
    assert len(stage(100_000).compress(bytes(100_000))) < 1000


@COMPRESSING
@given(body=st.binary(max_size=300), raw_bytes=st.integers(1, 1000))
def test_hostile_bytes_are_refused_or_have_the_right_length(
    stage: type[EntropyStage], body: bytes, raw_bytes: int
) -> None:
    try:
        raw = stage(raw_bytes).decompress(body)
    except CodecError:
        return
    assert len(raw) == raw_bytes


@COMPRESSING
@given(raw=st.binary(min_size=1, max_size=300), place=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_damaged_bytes_are_refused_or_have_the_right_length(
    stage: type[EntropyStage], raw: bytes, place: int, flip: int
) -> None:
    made = stage(len(raw))
    body = bytearray(made.compress(raw))
    body[place % len(body)] ^= flip
    try:
        assert len(made.decompress(body)) == len(raw)
    except CodecError:
        assert bytes(made.decompress(made.compress(raw))) == raw


@COMPRESSING
@pytest.mark.parametrize(
    "damage", [lambda body: body[:-1], lambda body: body + b"\0", lambda body: b"", lambda body: body * 2]
)
def test_cut_and_extended_bodies_are_refused(stage: type[EntropyStage], damage: Callable[[bytes], bytes]) -> None:
    raw = random.Random(0).randbytes(1000)
    made = stage(len(raw))
    with pytest.raises(CodecError):
        made.decompress(damage(made.compress(raw)))


@COMPRESSING
@pytest.mark.parametrize("other", [999, 1001, 100_000])
def test_another_content_length_is_refused(stage: type[EntropyStage], other: int) -> None:
    with pytest.raises(CodecError):
        stage(1000).decompress(stage(other).compress(bytes(other)))


def unsized(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


@pytest.mark.parametrize(
    ("stage", "bomb"),
    [
        (Lz4Stage, lz4.block.compress(bytes(BOMB), store_size=False)),
        (Lz4Stage, lz4.block.compress(bytes(BOMB), store_size=True)),
        (ZstdStage, zstandard.ZstdCompressor().compress(bytes(BOMB))),
        (ZstdStage, unsized(bytes(BOMB))),
        (ZstdStage, bytes.fromhex("28b52ffd") + b"\xe0" + (1 << 62).to_bytes(8, "little") + b"\x01\x00\x00"),
        (ZstdStage, bytes.fromhex("28b52ffd") + b"\x80\xb0" + (1000).to_bytes(4, "little") + b"\x01\x00\x00"),
    ],
    ids=["lz4", "lz4 with size", "zstd", "zstd unsized", "zstd 4 EiB stated", "zstd 4 GiB window"],
)
def test_a_bomb_is_refused_before_room_is_made(stage: type[EntropyStage], bomb: bytes) -> None:
    made = stage(1000)
    tracemalloc.start()
    try:
        with pytest.raises(CodecError):
            made.decompress(bomb)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_frame_that_states_the_right_size_but_holds_less_is_refused() -> None:
    made = ZstdStage(1000)
    body = bytearray(ZstdStage(900).compress(bytes(900)))
    assert body[5:7] == (900 - 256).to_bytes(2, "little")
    body[5:7] = (1000 - 256).to_bytes(2, "little")
    with pytest.raises(CodecError):
        made.decompress(body)


def test_no_stage_hands_the_body_through() -> None:
    body = b"whatever"
    assert NoStage(3).decompress(body) is body
