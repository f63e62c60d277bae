"""Messages to frames and back: the header in frame 0 (msgpack), the body, if there is one, in frame 1.

Input is untrusted until it is a `Message`: its length is limited before anything is decoded, and it is decoded directly
into the fields of a message, so that nothing is built that no message can hold.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, Union

import msgpack
import msgspec

from common.errors import ProtocolError, WireError
from common.host.versions import own_version
from common.settings.exchanges import MAX_LIST_ITEMS
from common.wire.messages import MAX_TEXT, PROTOCOL, AnyMessage, Hello, Status, Welcome
from common.wire.protocol import PEERS, RULES

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_HEADER_BYTES = 4 * 2**20
"""A longer header is not read; a learner reads only as much as the actors of its run can need."""
MAX_DETAIL = 300
"""Characters quoted of a decoder's error, which may repeat what a peer wrote."""
MAX_QUOTED = 64
"""Most bytes that are quoted of a foreign protocol number."""
_LIMITS = {
    "max_str_len": 2**16,
    "max_bin_len": 0,
    "max_ext_len": 0,
    "max_array_len": MAX_LIST_ITEMS,
    "max_map_len": 2**12,
}
_FREE = {"welcome": Welcome, "status": Status}
"""Messages that contain a map of arbitrary values, and that only a learner sends: msgpack reads them, by `_LIMITS`."""
_encode = msgspec.msgpack.Encoder().encode
_to_learner = [kind for kind, rule in RULES.items() if set(PEERS) & set(rule.senders)]
_decode_learner: Any = msgspec.msgpack.Decoder(Union[tuple(_to_learner)]).decode  # noqa: UP007
_decode_peer: Any = msgspec.msgpack.Decoder(Union[tuple(set(RULES) - {*_FREE.values()})]).decode  # noqa: UP007


class _Kind(msgspec.Struct):
    """What can be read of a header that is no message here; its other fields are ignored."""

    type: str = ""
    protocol: msgspec.Raw = msgspec.Raw(b"\xc0")


_decode_kind = msgspec.msgpack.Decoder(_Kind).decode


def pack(message: AnyMessage) -> bytes:
    """Return the header frame of `message`; texts longer than MAX_TEXT, such as a long error, are cut."""
    try:
        header = _encode(message)
    except UnicodeEncodeError:  # a text that is not valid Unicode, such as the name of a file
        return _pack_cut(message)
    return _pack_cut(message) if len(header) > MAX_TEXT and _has_long_text(message) else header


def _has_long_text(message: AnyMessage) -> bool:
    values = (getattr(message, field) for field in message.__struct_fields__)
    return any(isinstance(value, str) and len(value) > MAX_TEXT for value in values)


def _pack_cut(message: AnyMessage) -> bytes:
    plain = msgspec.to_builtins(message)
    for field, value in plain.items():
        if isinstance(value, str):
            plain[field] = value[:MAX_TEXT]
    return bytes(msgpack.packb(plain, unicode_errors="replace"))


def unpack(header: Buffer, limit: int = MAX_HEADER_BYTES, *, by_learner: bool = False) -> AnyMessage:
    """Return the message in a header frame of at most `limit` bytes; raises ProtocolError, WireError and nothing else.

    by_learner: accept only messages that peers may send.
    """
    if len(header) > limit:
        raise WireError(f"a header of {len(header)} bytes, at most {limit} are read")
    try:
        message: AnyMessage = (_decode_learner if by_learner else _decode_peer)(header)
    except msgspec.ValidationError as error:
        kind = _kind_of(header)
        if kind.type == "hello":
            raise _foreign_hello(kind.protocol, error) from None
        if kind.type in _FREE and not by_learner:
            return _unpack_free(header)
        raise WireError(f"a header that is no message: {str(error)[:MAX_DETAIL]}") from None
    except Exception as error:  # several unrelated types, UnicodeDecodeError and RecursionError among them
        raise _no_msgpack(error) from None
    if isinstance(message, Hello) and message.protocol != PROTOCOL:
        raise _foreign_hello(msgspec.Raw(_encode(message.protocol)))
    return message


def _kind_of(header: Buffer) -> _Kind:
    try:
        return _decode_kind(header)
    except msgspec.ValidationError:
        return _Kind()
    except Exception as error:
        raise _no_msgpack(error) from None


def _unpack_free(header: Buffer) -> AnyMessage:
    try:
        plain = msgpack.unpackb(header, **_LIMITS)
        message: AnyMessage = msgspec.convert(plain, Welcome | Status)
        return message
    except msgspec.ValidationError as error:
        theirs = plain.get("a3cd")
        sender = f" of a3cd {theirs[:MAX_QUOTED]}" if isinstance(theirs, str) else ""
        raise WireError(f"a header{sender} that is no message: {str(error)[:MAX_DETAIL]}") from None
    except Exception as error:
        raise _no_msgpack(error) from None


def _no_msgpack(error: Exception) -> WireError:
    return WireError(f"a header that is no msgpack: {str(error)[:MAX_DETAIL] or type(error).__name__}")


def _quoted(protocol: msgspec.Raw) -> str:
    """Return what a hello has as its protocol number, as text; it may be anything."""
    if len(protocol) > MAX_QUOTED:
        return f"of {len(protocol)} bytes"
    try:
        return repr(msgspec.msgpack.decode(protocol))
    except Exception:  # a map with keys that Python cannot hash, text that is no UTF-8
        return "that cannot be read"


def _foreign_hello(protocol: msgspec.Raw, error: Exception | None = None) -> ProtocolError:
    mend = "install the same a3cd on both ends"
    if bytes(protocol) == _encode(PROTOCOL):
        return ProtocolError(f"a3cd {own_version()} cannot read its hello ({str(error)[:MAX_DETAIL]}): {mend}")
    return ProtocolError(
        f"protocol {_quoted(protocol)} is not {PROTOCOL}, the one spoken here by a3cd {own_version()}: {mend}"
    )


def split(
    frames: Sequence[Buffer], limit: int = MAX_HEADER_BYTES, *, by_learner: bool = False
) -> tuple[AnyMessage, Buffer | None]:
    """Return the message and body in the frames of a multipart message, without the routing id; raises as `unpack`."""
    if not 1 <= len(frames) <= 2:
        raise WireError(f"{len(frames)} frames, a message has one or two")
    return unpack(frames[0], limit, by_learner=by_learner), frames[1] if len(frames) == 2 else None
