"""A dashboard's server in this process, on its own port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from common.host.addresses import Address
from common.host.host_header import Hosts
from common.wire import sockets
from deploy.dashboard.door import Door
from deploy.dashboard.watched import WatchedRun


@contextmanager
def served(runs: Sequence[WatchedRun], door: Door | None = None) -> Iterator[int]:
    """Serves the dashboard while the block runs; yields the port."""
    from deploy.dashboard.web import serve

    listener = sockets.reserve(Address("127.0.0.1", 0))
    begun, ended = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def answer() -> None:
        server = serve(listener, runs, Hosts([], loopback=True), door)
        begun.set()
        await ended.wait()
        server.stop()
        await server.close_all_connections()

    def work() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(answer())

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert begun.wait(20)
    try:
        yield listener.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(20)
        listener.close()
