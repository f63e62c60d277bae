"""Messages to frames and back: header in frame 0 (msgpack), a body, if any, in frame 1.

Whatever comes in is hostile until it has become a `Message`: lengths are limited before anything is built.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import TypeAlias

import msgpack
import msgspec

from common.errors import WireError
from common.wire.messages import MAX_TEXT, PROTOCOL, AnyMessage

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_HEADER_BYTES = 4 * 2**20
"""A longer header is not read."""
MAX_ITEMS = 2**16
"""A list in a header has no more."""
MAX_DETAIL = 300
"""Characters quoted of what is wrong with a message: a peer may have written them."""
_LIMITS = {
    "max_str_len": 2**16,
    "max_bin_len": 0,
    "max_ext_len": 0,
    "max_array_len": MAX_ITEMS,
    "max_map_len": 2**12,
}


class ProtocolError(WireError):
    """A hello of another protocol version: the one thing that is answered before it is understood."""

    def __init__(self, theirs: object) -> None:
        """`theirs`: what stood in the field `protocol`."""
        super().__init__(
            f"protocol {reprlib.repr(theirs)} is not {PROTOCOL}, the one spoken here: "
            "install the same a3cd on both ends"
        )


def pack(message: AnyMessage) -> bytes:
    """The header frame of `message`; of a text that is longer than peers read, an error's say, the beginning."""
    plain = msgspec.to_builtins(message)
    for field, value in plain.items():
        if isinstance(value, str):
            plain[field] = value[:MAX_TEXT]
    return bytes(msgpack.packb(plain, unicode_errors="replace"))


def unpack(header: Buffer) -> AnyMessage:
    """The message in a header frame; raises `ProtocolError` or `WireError`, and nothing else."""
    if len(header) > MAX_HEADER_BYTES:
        raise WireError(f"a header of {len(header)} bytes, at most {MAX_HEADER_BYTES} are read")
    try:
        plain = msgpack.unpackb(header, **_LIMITS)
    except Exception as error:  # msgpack raises several unrelated kinds, ValueError and RecursionError among them
        raise WireError(f"a header that is no msgpack: {str(error) or type(error).__name__}") from None
    if isinstance(plain, dict) and plain.get("type") == "hello" and plain.get("protocol") != PROTOCOL:
        raise ProtocolError(plain.get("protocol"))
    try:
        message: AnyMessage = msgspec.convert(plain, AnyMessage)
        return message
    except msgspec.ValidationError as error:
        raise WireError(f"a header that is no message: {str(error)[:MAX_DETAIL]}") from None


def split(frames: Sequence[Buffer]) -> tuple[AnyMessage, Buffer | None]:
    """Frames of one multipart message, without the routing id, to (message, body)."""
    if not 1 <= len(frames) <= 2:
        raise WireError(f"{len(frames)} frames, a message has one or two")
    return unpack(frames[0]), frames[1] if len(frames) == 2 else None
