"""What the kernel knows of a TCP connection that libzmq holds, by its descriptor."""

import contextlib
import socket
import struct
import sys
from collections.abc import Iterator

_COUNTED = struct.Struct("=QQ")
_COUNTED_AT = 120
"""Offset in Linux' struct tcp_info of tcpi_bytes_acked and tcpi_bytes_received."""
_TCP_INFO: int = getattr(socket, "TCP_INFO", 0) if sys.platform == "linux" else 0
"""0 except on Linux: other systems that have TCP_INFO have another struct."""

counts_bytes = _TCP_INFO > 0


def plain(address: str) -> str:
    """Strip what IPv6 sockets add: the prefix of an IPv4 address, and the interface of a link-local one."""
    return address.removeprefix("::ffff:").partition("%")[0]


@contextlib.contextmanager
def borrowed(descriptor: int) -> Iterator[socket.socket]:
    """Yield the connection as a Python socket, and leave it open afterwards."""
    # This family has room for both kinds of address; with AF_INET, Python would truncate those of IPv6.
    tcp = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield tcp
    finally:
        tcp.detach()


def peer(descriptor: int) -> tuple[str, int] | None:
    """Return address and port of the other end; None if the descriptor is closed, or another kind of file by now."""
    try:
        with borrowed(descriptor) as tcp:
            host, port = tcp.getpeername()[:2]
    except (OSError, ValueError):
        return None
    return plain(str(host)), int(port)


def counted(descriptor: int) -> tuple[int, int] | None:
    """Return the bytes received, and those that the other end has acknowledged; None if closed, or not known here."""
    if not counts_bytes:
        return None
    try:
        tcp = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)
        try:  # without `borrowed`, which would double the time: a learner asks for thousands of connections
            info = tcp.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _COUNTED_AT + _COUNTED.size)
        finally:
            tcp.detach()
        acknowledged, received = _COUNTED.unpack_from(info, _COUNTED_AT)
    except (OSError, struct.error):
        return None
    return received, acknowledged
