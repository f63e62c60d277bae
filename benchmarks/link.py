"""A TCP proxy between peers and their learner: a cable that can be cut, slowed, reset, or led to another learner.

    with Link("127.0.0.2", "127.0.0.1", 5555) as link:      # and port 5556
        link.cut(); link.mend(); link.slow(20_000); link.reset(); link.lead_to("127.0.0.9")

It relays bytes on loopback, in its own thread. A cut cable loses no bytes, because TCP would send them again: they wait
until the cable is mended.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from typing import Self

CHUNK_BYTES = 16_384
_RESET = struct.pack("ii", 1, 0)
"""Value of SO_LINGER with which closing a connection resets it."""


class Link:
    def __init__(self, listen: str, target: str, port: int) -> None:
        """Relays `port` and the next port at the address `listen` to the same ports at `target`."""
        self._target = target
        self._bytes_per_second = 0.0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._up = asyncio.Event()
        self._up.set()
        self._servers = [
            self._loop.run_until_complete(asyncio.start_server(self._relay_to(number), listen, number))
            for number in (port, port + 1)
        ]
        self._thread = threading.Thread(target=self._loop.run_forever, name="link", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        self._call(self._up.clear)

    def mend(self) -> None:
        """Makes the cable whole, with no limit on its speed."""
        self.slow(0.0)
        self._call(self._up.set)

    def slow(self, bytes_per_second: float) -> None:
        """Limits the speed in each direction of each connection; 0: no limit."""
        self._bytes_per_second = bytes_per_second

    def reset(self) -> None:
        """Resets every connection."""
        self._call(self._abort)

    def lead_to(self, target: str) -> None:
        """Leads new connections to this address, with the same ports, and resets the existing ones."""
        self._target = target
        self.reset()

    def _call(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)

    def _abort(self) -> None:
        for writer in self._writers:
            connection = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    def _close(self) -> None:
        for server in self._servers:
            server.close()
        self._abort()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_later(0.1, self._loop.stop)

    def _relay_to(self, port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ends = [writer]
            try:
                far_reader, far_writer = await asyncio.open_connection(self._target, port)
                ends.append(far_writer)
                self._writers |= set(ends)
                await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))
            except (OSError, asyncio.CancelledError):
                pass
            finally:
                self._writers -= set(ends)
                for end in ends:
                    end.transport.abort()

        return relay

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._up.wait()
            if self._bytes_per_second:
                await asyncio.sleep(len(data) / self._bytes_per_second)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # when one end is gone, close the other too
