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
"""Others that have the name have another struct."""

counts_bytes = _TCP_INFO > 0


def plain(address: str) -> str:
    """Without what IPv6 sockets add: the mark of an IPv4 address, and the interface of a link-local one."""
    return address.removeprefix("::ffff:").partition("%")[0]


@contextlib.contextmanager
def borrowed(descriptor: int) -> Iterator[socket.socket]:
    """The connection as a socket of Python's, which leaves it open."""
    # This family has room for addresses of both; with AF_INET Python cuts the others off.
    tcp = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield tcp
    finally:
        tcp.detach()


def peer(descriptor: int) -> tuple[str, int] | None:
    """Address and port at the other end; None: it is closed, or another kind of file by now."""
    try:
        with borrowed(descriptor) as tcp:
            host, port = tcp.getpeername()[:2]
    except (OSError, ValueError):
        return None
    return plain(str(host)), int(port)


def counted(descriptor: int) -> tuple[int, int] | None:
    """Bytes that came, and bytes that the other end has; None: the system does not say, or it is closed."""
    if not counts_bytes:
        return None
    try:
        tcp = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)
        try:  # without `borrowed`, which takes as long again: a learner asks for thousands
            info = tcp.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _COUNTED_AT + _COUNTED.size)
        finally:
            tcp.detach()
        acknowledged, received = _COUNTED.unpack_from(info, _COUNTED_AT)
    except (OSError, struct.error):
        return None
    return received, acknowledged
