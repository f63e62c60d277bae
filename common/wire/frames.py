"""Messages to frames and back: the header in frame 0 (msgpack), the body, if there is one, in frame 1.

Input is untrusted until it is a `Message`: lengths are limited before anything is decoded.
"""

import reprlib
from collections.abc import Sequence
from typing import TypeAlias

import msgpack
import msgspec

from common.errors import ProtocolError, WireError
from common.settings.exchanges import MAX_LIST_ITEMS
from common.wire.messages import MAX_TEXT, PROTOCOL, AnyMessage

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_HEADER_BYTES = 4 * 2**20
"""A longer header is not read."""
MAX_DETAIL = 300
"""Characters quoted of a decoder's error, which may repeat what a peer wrote."""
_LIMITS = {
    "max_str_len": 2**16,
    "max_bin_len": 0,
    "max_ext_len": 0,
    "max_array_len": MAX_LIST_ITEMS,
    "max_map_len": 2**12,
}


def pack(message: AnyMessage) -> bytes:
    """The header frame of `message`; texts longer than MAX_TEXT, such as a long error, are cut."""
    plain = msgspec.to_builtins(message)
    for field, value in plain.items():
        if isinstance(value, str):
            plain[field] = value[:MAX_TEXT]
    return bytes(msgpack.packb(plain, unicode_errors="replace"))


def unpack(header: Buffer) -> AnyMessage:
    """The message in a header frame; raises ProtocolError or WireError, and nothing else."""
    if len(header) > MAX_HEADER_BYTES:
        raise WireError(f"a header of {len(header)} bytes, at most {MAX_HEADER_BYTES} are read")
    try:
        plain = msgpack.unpackb(header, **_LIMITS)
    except Exception as error:  # msgpack raises several unrelated types, ValueError and RecursionError among them
        raise WireError(f"a header that is no msgpack: {str(error) or type(error).__name__}") from None
    if isinstance(plain, dict) and plain.get("type") == "hello" and plain.get("protocol") != PROTOCOL:
        theirs = reprlib.repr(plain.get("protocol"))
        raise ProtocolError(
            f"protocol {theirs} is not {PROTOCOL}, the one spoken here: install the same a3cd on both ends"
        )
    try:
        message: AnyMessage = msgspec.convert(plain, AnyMessage)
        return message
    except msgspec.ValidationError as error:
        raise WireError(f"a header that is no message: {str(error)[:MAX_DETAIL]}") from None


def split(frames: Sequence[Buffer]) -> tuple[AnyMessage, Buffer | None]:
    """The message and body in the frames of one multipart message, without the routing id; raises WireError."""
    if not 1 <= len(frames) <= 2:
        raise WireError(f"{len(frames)} frames, a message has one or two")
    return unpack(frames[0]), frames[1] if len(frames) == 2 else None
