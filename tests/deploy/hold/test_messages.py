from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import WireError
from deploy.hold import messages
from deploy.hold.messages import (
    AnyLine,
    Gone,
    Greeting,
    Holding,
    Lines,
    Ping,
    Refused,
    Start,
    Started,
    Stop,
    decode,
    encode,
)

ALL: list[AnyLine] = [
    Greeting(1, "lab", "tcp://gpu:5555", ["--nice", "10"], 60.0),
    Start(3, "lab-h2-3"),
    Stop(3, True),
    Ping(),
    Gone(3, 137, "one\ntwo"),
    Holding([1, 2], [Gone(3, 1)]),
    Started(3),
    Refused("no"),
]


@pytest.mark.parametrize("line", ALL, ids=lambda line: type(line).__name__)
def test_there_and_back_on_one_line(line: AnyLine) -> None:
    raw = encode(line)
    assert raw.count(b"\n") == 1
    assert decode(raw) == line


def test_as_it_is_written() -> None:
    assert encode(Start(3, "lab-h2-3")) == b'{"type":"start","slot":3,"name":"lab-h2-3"}\n'


@pytest.mark.parametrize(
    "raw",
    [b"", b"Welcome!", b"{}", b'{"type":"start"}', b'{"type":"start","slot":-1,"name":"x"}', b'{"type":"ping","x":1}',
     b'{"type":"start","slot":4096,"name":"x"}', b'{"type":"start","slot":0,"name":""}', b"\xff\n"],
)  # fmt: skip
def test_what_is_no_line(raw: bytes) -> None:
    with pytest.raises(WireError, match="no line of a holder"):
        decode(raw)


@given(st.binary())
def test_anything_is_a_line_or_refused(raw: bytes) -> None:
    with contextlib.suppress(WireError):
        decode(raw)


@given(st.lists(st.integers(1, 50), max_size=20))
def test_lines_come_whole_however_they_are_cut(cuts: list[int]) -> None:
    raw, lines, found = b"".join(map(encode, ALL)), Lines(), []
    for cut in cuts:
        found += lines.feed(raw[:cut])
        raw = raw[cut:]
    assert found + lines.feed(raw) == ALL


def test_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_LINE", 10)
    lines = Lines()
    assert lines.feed(b"x" * 10) == []
    with pytest.raises(WireError, match="longer than 10 bytes"):
        lines.feed(b"x")
