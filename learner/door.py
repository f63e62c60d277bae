"""Keeps addresses away from a listening socket: Linux drops their packets before there is a connection.

The kernel runs a classic BPF program on each packet that requests a connection (SO_ATTACH_FILTER). TCP at the address
that is kept out retries by itself; existing connections stay.
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
_LOAD_BYTE, _LOAD_WORD, _AND, _IF_EQUAL, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x06
_SOURCES = {4: 12, 6: 8}
"""Offset of the sender's address in an IP header, by the version of IP."""
MOST = 100
"""Most addresses that are kept out; a program has at most 4096 instructions."""


def program(addresses: Sequence[str]) -> bytes:
    """Return the instructions that drop packets from these addresses, of which it takes the first MOST."""
    lines = [line for one in addresses[:MOST] for line in _drop(one)]
    return b"".join(struct.pack("=HBBI", *line) for line in [*lines, (_RETURN, 0, 0, 0xFFFFFFFF)])


def _drop(address: str) -> list[tuple[int, int, int, int]]:
    """Return the instructions for one address.

    They compare the version of IP, then the address four bytes at a time; the first difference jumps behind them.
    """
    one = ipaddress.ip_address(address)
    words = struct.unpack(f"!{len(one.packed) // 4}I", one.packed)
    last = 2 * len(words) + 4
    lines = [(_LOAD_BYTE, 0, 0, _NETWORK), (_AND, 0, 0, 0xF0), (_IF_EQUAL, 0, last - 3, one.version << 4)]
    for number, word in enumerate(words):
        at = len(lines)
        lines += [
            (_LOAD_WORD, 0, 0, _NETWORK + _SOURCES[one.version] + 4 * number),
            (_IF_EQUAL, 0, last - at - 2, word),
        ]
    return [*lines, (_RETURN, 0, 0, 0)]


def keep_out(listener: socket.socket, addresses: Iterable[str]) -> None:
    """Keep out exactly these addresses from now on; do nothing where the system cannot."""
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
