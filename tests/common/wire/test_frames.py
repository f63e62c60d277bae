from __future__ import annotations

import contextlib
import json
import tracemalloc
from pathlib import Path
from typing import Any, get_args

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from common.errors import ProtocolError, WireError
from common.host.versions import own_version
from common.wire.frames import MAX_DETAIL, MAX_HEADER_BYTES, pack, split, unpack
from common.wire.messages import MAX_TEXT, PROTOCOL, AnyMessage, Goodbye, Heartbeat, Hello, Message, Pull, Stop
from common.wire.protocol import PEERS, RULES

GOLDEN = Path(__file__).parent / "golden.json"
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text()
plain = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


def values(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Valid values of a field."""
    match kind:
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            return st.integers(kind.ge or 0, 2**63 - 1 if kind.le is None else kind.le)
        case inspect.FloatType():
            least = kind.ge if kind.gt is None else kind.gt
            return st.floats(least, kind.le, allow_nan=False, exclude_min=kind.gt is not None)
        case inspect.StrType():
            return st.text(min_size=kind.min_length or 0, max_size=kind.max_length)
        case inspect.ListType():
            return st.lists(values(kind.item_type), max_size=5)
        case inspect.TupleType():
            return st.tuples(*map(values, kind.item_types))
        case inspect.StructType():
            return st.builds(kind.cls, *(values(field.type) for field in kind.fields))
        case inspect.DictType():
            return st.dictionaries(values(kind.key_type), values(kind.value_type), max_size=5)
        case inspect.AnyType():
            return plain
    raise AssertionError(f"no values for {kind}")


def messages(kind: type[Message]) -> st.SearchStrategy[Any]:
    if kind is Hello:
        return st.builds(Hello, protocol=st.just(PROTOCOL), **_fields(Hello, without="protocol"))
    return st.builds(kind, **_fields(kind))


def _fields(kind: type[Message], without: str = "") -> dict[str, st.SearchStrategy[Any]]:
    info: Any = inspect.type_info(kind)
    return {field.name: values(field.type) for field in info.fields if field.name != without}


@given(st.one_of([messages(kind) for kind in get_args(AnyMessage)]), st.none() | st.binary())
def test_round_trip(message: AnyMessage, body: bytes | None) -> None:
    header = pack(message)
    assert unpack(header) == message
    frames = [memoryview(header)] if body is None else [memoryview(header), memoryview(body)]
    assert split(frames) == (message, body)


@given(st.binary(), st.booleans())
def test_any_bytes_are_a_message_or_a_wire_error(header: bytes, by_learner: bool) -> None:
    with contextlib.suppress(WireError):
        assert isinstance(unpack(header, by_learner=by_learner), Message)


@given(plain | st.dictionaries(st.sampled_from(["type", "protocol", "role", "version"]), plain), st.booleans())
def test_any_msgpack_is_a_message_or_a_wire_error(value: object, by_learner: bool) -> None:
    with contextlib.suppress(WireError):
        assert isinstance(unpack(msgpack.packb(value), by_learner=by_learner), Message)


@given(st.one_of([messages(kind) for kind in get_args(AnyMessage)]), st.data())
def test_a_damaged_message_is_a_message_or_a_wire_error(message: AnyMessage, data: st.DataObject) -> None:
    header = bytearray(pack(message))
    header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        assert isinstance(unpack(header), Message)


@given(st.lists(st.binary(), max_size=4))
def test_any_frames_are_a_message_or_a_wire_error(frames: list[bytes]) -> None:
    with contextlib.suppress(WireError):
        message, _ = split(frames)
        assert isinstance(message, Message)


@pytest.mark.parametrize(("count", "good"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_message_has_one_or_two_frames(count: int, good: bool) -> None:
    frames = [pack(Pull(version=1))] * count
    if good:
        assert split(frames)[0] == Pull(version=1)
    else:
        with pytest.raises(WireError, match=f"{count} frames, a message has one or two"):
            split(frames)


STATUS = b"\x82\xa4type\xa6status\xa6report\x81\xa1a"
EPISODES = b"\x82\xa4type\xa8gradient\xa8episodes"
LIST_OF_ANY_LENGTH = b"\xdd\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"", "truncated"),
        (b"\xc1", "invalid opcode"),
        (b"\xdb\xff\xff\xff\xff", "truncated"),
        (LIST_OF_ANY_LENGTH, "Expected `object`, got `array`"),
        (b"\xdf\xff\xff\xff\xff", "truncated"),
        (b"\xc6\xff\xff\xff\xff", "truncated"),
        (b"\xc9\xff\xff\xff\xff\x05", "truncated"),
        (b"\x82\xa4type\xa4pull\xa7version\xa1\xff", "Expected `int`, got `str`"),
        (b"\x82\xa4type\xa7goodbye\xa6reason\xa1\xff", "can't decode byte 0xff"),
        (EPISODES + LIST_OF_ANY_LENGTH, "truncated"),
        (EPISODES + b"\x91" * 60_000, "recursion"),
        (b"\x82\xa4type\xa4pull\xa7surplus" + b"\x91" * 60_000, "recursion"),
        (b"\x82\x01\x02\x03\x04", "Expected `str`"),
        (pack(Pull(version=1)) + b"\x00", "trailing"),
        (STATUS + b"\xdb\x00\x01\x00\x01" + b"a" * 65537, "65537 exceeds max_str_len(65536)"),
        (STATUS + LIST_OF_ANY_LENGTH, "truncated"),
        (STATUS + b"\xdf\xff\xff\xff\xff", "truncated"),
        (STATUS + b"\xdd\x00\x01\x00\x01" + b"\x01" * 65537, "65537 exceeds max_array_len(65536)"),
        (STATUS + b"\xde\x10\x01" + b"\xa1a\x01" * 4097, "4097 exceeds max_map_len(4096)"),
        (STATUS + b"\xc4\x01x", "1 exceeds max_bin_len(0)"),
        (STATUS + b"\xd4\x05x", "exceeds max_ext_len(0)"),
        (STATUS + b"\x91" * 100_000, "recursion"),
        (STATUS + b"\xa1\xff", "can't decode byte 0xff"),
    ],
)
def test_what_is_no_message_within_the_limits(header: bytes, why: str) -> None:
    with pytest.raises(WireError) as caught:
        unpack(header)
    assert str(caught.value).startswith("a header that is no m")
    assert why in str(caught.value)


def bombs() -> dict[str, bytes]:
    """Headers as long as a learner reads, in which nearly each byte is a thing of its own: once 70 bytes of memory."""
    lists = b"\xdd" + (50_000).to_bytes(4, "big") + b"\x90" * 50_000
    return {
        "no message": lists,
        "an unknown field": b"\x82\xa4type\xa9heartbeat\xa7surplus" + lists,
        "a field of another type": b"\x82\xa4type\xa9heartbeat\xa5state" + lists,
        "a field before its type": b"\x82\xa5state" + lists + b"\xa4type\xa9heartbeat",
        "settings": b"\x82\xa4type\xa7welcome\xa8settings\x81\xa1a" + lists,
        "a report": b"\x82\xa4type\xa6status\xa6report\x81\xa1a" + lists,
        "a protocol": b"\x82\xa4type\xa5hello\xa8protocol" + lists,
        "episodes": EPISODES + lists,
        "versions": b"\x82\xa4type\xa5hello\xa8versions" + lists,
    }


@pytest.mark.parametrize("name", bombs())
def test_a_learner_builds_nothing_that_no_message_holds(name: str) -> None:
    header = bombs()[name]
    with contextlib.suppress(WireError):
        unpack(header, by_learner=True)  # whatever is made once
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            unpack(header, by_learner=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(header)


@given(st.binary() | plain.map(msgpack.packb))
def test_a_learner_reads_no_free_maps(value: bytes) -> None:
    for begin in (b"\x82\xa4type\xa7welcome\xa8settings", b"\x82\xa4type\xa6status\xa6report"):
        with pytest.raises(WireError):
            unpack(begin + value, by_learner=True)


@pytest.mark.parametrize("kind", RULES)
def test_a_learner_reads_what_peers_may_send(kind: type[Message]) -> None:
    fields = json.loads(GOLDEN.read_text())["messages"][kind.__name__]
    header = bytes.fromhex(fields["hex"])
    if set(PEERS) & set(RULES[kind].senders):
        assert unpack(header, by_learner=True) == unpack(header)
    else:
        with pytest.raises(WireError, match=f"Invalid value '{kind.__name__.lower()}'"):
            unpack(header, by_learner=True)


def test_a_limit_of_one_s_own() -> None:
    header = pack(Pull(version=1))
    assert split([header], len(header)) == (Pull(version=1), None)
    with pytest.raises(WireError, match=f"a header of {len(header)} bytes, at most {len(header) - 1} are read"):
        split([header], len(header) - 1)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "Expected `object`, got `None`"),
        ([], "Expected `object`, got `array`"),
        ({}, "missing required field `type`"),
        ({"type": 3}, "Expected `str`, got `int` - at `$.type`"),
        ({"type": "pickle"}, "Invalid value 'pickle' - at `$.type`"),
        ({"type": "message"}, "Invalid value 'message' - at `$.type`"),
    ],
)
def test_msgpack_that_is_no_message(value: object, why: str) -> None:
    with pytest.raises(WireError) as caught:
        unpack(msgpack.packb(value))
    assert str(caught.value).startswith("a header that is no message: ")
    assert why in str(caught.value)


def test_a_header_that_is_too_long_is_not_read() -> None:
    with pytest.raises(WireError, match="a header of 4194305 bytes, at most 4194304 are read"):
        unpack(bytes(MAX_HEADER_BYTES + 1))


def test_an_error_quotes_no_more_than_its_share() -> None:
    with pytest.raises(WireError) as caught:
        unpack(msgpack.packb({"type": "pull", "version": 1, "x" * 60_000: 1}))
    assert len(str(caught.value)) < MAX_DETAIL + 100


@pytest.mark.parametrize(
    "theirs", [PROTOCOL + 1, 0, -1, True, 2**64 - 1, None, "1", [1], {"a": 1}, float("nan"), "x" * 60_000]
)
def test_a_hello_of_another_protocol_is_told_apart_whatever_else_it_holds(theirs: object) -> None:
    with pytest.raises(ProtocolError) as caught:
        unpack(msgpack.packb({"type": "hello", "protocol": theirs, "colour": "red"}))
    assert f"is not {PROTOCOL}, the one spoken here by a3cd {own_version()}: install the same a3cd" in str(caught.value)
    assert len(str(caught.value)) < MAX_DETAIL


@pytest.mark.parametrize(
    "theirs", [b"\x81\x80\x01", b"\xa1\xff"], ids=["a map with a map for a key", "text of no UTF-8"]
)
def test_a_protocol_that_cannot_be_read(theirs: bytes) -> None:
    with pytest.raises(ProtocolError, match="protocol that cannot be read is not"):
        unpack(b"\x82\xa4type\xa5hello\xa8protocol" + theirs, by_learner=True)


def test_a_hello_of_a_newer_a3cd_is_told_so() -> None:
    fields = json.loads(GOLDEN.read_text())["messages"]["Hello"]["fields"]
    with pytest.raises(
        ProtocolError, match=rf"a3cd {own_version()} cannot read its hello .*`colour`.*: install the same"
    ):
        unpack(msgpack.packb({"type": "hello", **fields, "colour": "red"}), by_learner=True)


def test_a_welcome_of_a_newer_a3cd_says_of_which() -> None:
    fields = json.loads(GOLDEN.read_text())["messages"]["Welcome"]["fields"]
    with pytest.raises(WireError, match=r"a header of a3cd 9.1 that is no message: .*`colour`"):
        unpack(msgpack.packb({"type": "welcome", **fields, "a3cd": "9.1", "colour": "red"}))


def test_a_hello_without_a_protocol() -> None:
    with pytest.raises(ProtocolError, match="protocol None is not"):
        unpack(msgpack.packb({"type": "hello"}))


@pytest.mark.parametrize("depth", [1, 500])
def test_a_protocol_of_any_depth_is_told_apart(depth: int) -> None:
    with pytest.raises(ProtocolError):
        unpack(b"\x82\xa4type\xa5hello\xa8protocol" + b"\x91" * depth + b"\xc0")


def test_a_protocol_too_deep_to_read_is_no_message() -> None:
    with pytest.raises(WireError, match="recursion"):
        unpack(b"\x82\xa4type\xa5hello\xa8protocol" + b"\x91" * 10_000 + b"\xc0")


def test_a_text_that_is_too_long_is_sent_as_its_beginning() -> None:
    assert unpack(pack(Goodbye(reason="because " * 1000))) == Goodbye(reason=("because " * 1000)[:MAX_TEXT])
    assert unpack(pack(Stop(reason="é" * MAX_TEXT, final=True))) == Stop(reason="é" * MAX_TEXT, final=True)


def test_text_that_is_no_unicode_is_sent_all_the_same() -> None:
    assert unpack(pack(Heartbeat(last_error="no file \udcff"))) == Heartbeat(last_error="no file ?")
