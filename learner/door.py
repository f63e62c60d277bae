"""Keeps addresses away from a listening socket: Linux drops their packets before there is a connection.

The kernel runs a program of BPF's first kind on each packet that asks for a connection (SO_ATTACH_FILTER). Whoever is
kept out tries again by itself, as TCP does; connections that are there stay.
"""

import contextlib
import ctypes
import ipaddress
import socket
import struct
import sys
from collections.abc import Iterable, Sequence

_ATTACH, _DETACH = 26, 27  # SO_ATTACH_FILTER and SO_DETACH_FILTER, which Python does not name
_NETWORK = 0xFFF00000  # SKF_NET_OFF: from here on, offsets are those of the IP header
_LOAD_BYTE, _LOAD_WORD, _AND, _IF_EQUAL, _JUMP, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x05, 0x06
_SOURCE_OF_4, _END_OF_SOURCE_OF_6 = 12, 20
MOST = 100
"""Addresses; a jump reaches 255 instructions."""


def program(addresses: Sequence[str]) -> bytes:
    """Instructions that drop what comes from them; of an IPv6 address the last four bytes are compared."""
    words = [int.from_bytes(ipaddress.ip_address(one).packed[-4:]) for one in addresses[:MOST]]
    lines = [
        (_LOAD_BYTE, 0, 0, _NETWORK),
        (_AND, 0, 0, 0xF0),
        (_IF_EQUAL, 0, 2, 0x40),
        (_LOAD_WORD, 0, 0, _NETWORK + _SOURCE_OF_4),
        (_JUMP, 0, 0, 1),
        (_LOAD_WORD, 0, 0, _NETWORK + _END_OF_SOURCE_OF_6),
        *((_IF_EQUAL, len(words) - number, 0, word) for number, word in enumerate(words)),
        (_RETURN, 0, 0, 0xFFFFFFFF),
        (_RETURN, 0, 0, 0),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def keep_out(listener: socket.socket, addresses: Iterable[str]) -> None:
    """These and no others, from now on; does nothing where the system cannot."""
    if sys.platform != "linux":
        return
    some = list(addresses)
    with contextlib.suppress(OSError):
        if not some:
            listener.setsockopt(socket.SOL_SOCKET, _DETACH, 0)
            return
        lines = program(some)
        held = ctypes.create_string_buffer(lines, len(lines))
        listener.setsockopt(socket.SOL_SOCKET, _ATTACH, struct.pack("@HP", len(lines) // 8, ctypes.addressof(held)))
