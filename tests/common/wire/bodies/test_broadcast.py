from __future__ import annotations

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import WireError
from common.wire.bodies.broadcast import FORMATS, Broadcast, run_mark

RUN = run_mark("CartPole-v1-20260101-120000")
HEADER_BYTES = 32
broadcasts = st.builds(
    Broadcast,
    run=st.binary(min_size=8, max_size=8),
    epoch=st.integers(0, 2**32 - 1),
    version=st.integers(0, 2**64 - 1),
    format=st.sampled_from(FORMATS),
    body=st.binary(),
)


def test_golden_bytes() -> None:
    """The layout is frozen: raise the number in the magic, and PROTOCOL, when it must change."""
    frame = Broadcast(run=RUN, epoch=2, version=77, format="fp16", body=b"\x00\x3c\x00\xc0").pack()
    assert frame.hex(" ", 4) == "41335701 ade70a4b 80172087 02000000 4d000000 00000000 01000000 58015197 003c00c0"


def test_the_layout_is_what_the_docstring_says() -> None:
    frame = Broadcast(run=RUN, epoch=3, version=2**40, format="fp32", body=b"body").pack()
    assert frame[0:4] == b"A3W\x01"
    assert frame[4:12] == RUN
    assert struct.unpack_from("<I", frame, 12) == (3,)
    assert struct.unpack_from("<Q", frame, 16) == (2**40,)
    assert frame[24:28] == bytes(4)
    assert struct.unpack_from("<I", frame, 28) == (zlib.crc32(b"body"),)
    assert frame[HEADER_BYTES:] == b"body"


def test_the_mark_of_a_run() -> None:
    assert RUN.hex() == "ade70a4b80172087"
    assert run_mark("CartPole-v1-20260101-120001") != RUN


@given(broadcasts)
def test_round_trip(broadcast: Broadcast) -> None:
    again = Broadcast.unpack(broadcast.pack())
    assert again == broadcast


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_body_is_a_view_of_the_frame(kind: type) -> None:
    frame = bytearray(Broadcast(run=RUN, epoch=1, version=1, format="fp32", body=kind(b"body")).pack())
    body = Broadcast.unpack(frame).body
    assert isinstance(body, memoryview)
    frame[-1:] = b"!"
    assert bytes(body) == b"bod!"


@given(st.binary(max_size=80) | st.binary(max_size=48).map(b"A3W\x01".__add__))
def test_any_bytes_are_a_broadcast_or_a_wire_error(frame: bytes) -> None:
    with contextlib.suppress(WireError):
        assert isinstance(Broadcast.unpack(frame), Broadcast)


@given(broadcasts, st.data())
def test_a_damaged_body_is_noticed(broadcast: Broadcast, data: st.DataObject) -> None:
    frame = bytearray(broadcast.pack() + b"x")
    position = data.draw(st.integers(HEADER_BYTES, len(frame) - 1))
    frame[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError, match=f"broadcast of version {broadcast.version} is damaged"):
        Broadcast.unpack(frame)


@pytest.mark.parametrize("length", [0, 1, HEADER_BYTES - 1])
def test_a_frame_shorter_than_the_header(length: int) -> None:
    with pytest.raises(WireError, match=f"a broadcast of {length} bytes, shorter than its header"):
        Broadcast.unpack(bytes(length))


@pytest.mark.parametrize(("offset", "value"), [(0, 0x42), (3, 2), (24, len(FORMATS))])
def test_another_layout(offset: int, value: int) -> None:
    frame = bytearray(Broadcast(run=RUN, epoch=1, version=1, format="fp32", body=b"").pack())
    frame[offset] = value
    with pytest.raises(WireError, match="another layout: is this the weights port"):
        Broadcast.unpack(frame)
