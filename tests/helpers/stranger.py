"""A peer that speaks ZMTP byte by byte, to do what libzmq does not allow."""

from __future__ import annotations

import socket
import struct
from typing import Self

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
"""ZMTP 3.1's, of a peer without CURVE (https://rfc.zeromq.org/spec/37/)."""
PING = b"\4\7\4PING\0\0"
SECONDS = 10.0


def frame(content: bytes, *, more: bool = False) -> bytes:
    """Returns one frame of a message as bytes on the wire; `more`: the message has further frames."""
    if len(content) < 256:
        return bytes([more, len(content)]) + content
    return struct.pack(">BQ", 2 + more, len(content)) + content


class Stranger:
    """A connection without keys; a context manager."""

    def __init__(self, port: int, kind: str = "DEALER", *, identity: bytes = b"", handshake: bool = True) -> None:
        """`kind`: the socket type that it announces; without a handshake it connects and sends nothing."""
        self.socket = socket.create_connection(("127.0.0.1", port), SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not handshake:
            return
        try:
            self._shake_hands(kind, identity)
        except (OSError, AssertionError):
            self.socket.close()
            raise

    def _shake_hands(self, kind: str, identity: bytes) -> None:
        ready = b"\5READY"
        for name, value in ((b"Socket-Type", kind.encode()), (b"Identity", identity)):
            ready += bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
        self.socket.sendall(GREETING + b"\4" + bytes([len(ready)]) + ready)
        self._take(len(GREETING) + 1)
        self._take(self._take(1)[0])

    def _take(self, count: int) -> bytes:
        taken = b""
        while len(taken) < count:
            more = self.socket.recv(count - len(taken))
            assert more, "the other end closed the connection"
            taken += more
        return taken

    def pour(self, chunk: bytes, times: int, seconds: float = 0.05) -> None:
        """Sends `chunk` up to `times` times, until the connection accepts nothing for `seconds`."""
        self.socket.settimeout(seconds)
        try:
            for _ in range(times):
                self.socket.sendall(chunk)
        except OSError:
            pass
        finally:
            self.socket.settimeout(SECONDS)

    @property
    def closed(self) -> bool:
        """Whether the other end has closed the connection."""
        self.socket.settimeout(0.0)
        try:
            while self.socket.recv(2**16):
                pass
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.socket.settimeout(SECONDS)
        return True

    def reset(self) -> None:
        """Resets the connection: the other end gets an error instead of its end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
