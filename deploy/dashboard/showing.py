"""The dashboard at work: its threads, its server, and when it ends."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from threading import Event, Thread

from common.errors import A3cdError
from common.host.host_header import Hosts
from common.wire.client import unanswered
from deploy.dashboard.door import Door
from deploy.dashboard.watched import WatchedRun
from deploy.dashboard.web import serve

LOOK_SECONDS = 0.2
"""Pause between two looks whether to stop."""
JOIN_SECONDS = 2.0
_log = logging.getLogger(__name__)

Watched = tuple[WatchedRun, Callable[[Event], None]]
"""A run, and the function that fills it until an event is set."""


def show(
    watched: Sequence[Watched],
    listener: socket.socket,
    hosts: Hosts,
    door: Door | None,
    *,
    stopping: Callable[[], bool],
    timeout: float,
) -> None:
    """Show the runs until `stopping`.

    Raises A3cdError if no learner or folder has answered after `timeout` seconds, or before that if all have failed;
    0: neither ends it.
    """
    stopped = Event()
    with ExitStack() as stack:
        for run, follow in watched:
            thread = Thread(target=follow, args=(stopped,), name=f"watch {run.where}", daemon=True)
            thread.start()
            stack.callback(thread.join, JOIN_SECONDS)
        stack.callback(stopped.set)
        runs = [run for run, _ in watched]
        asyncio.run(_answer(listener, runs, hosts, door, stopping, timeout))


async def _answer(
    listener: socket.socket,
    runs: Sequence[WatchedRun],
    hosts: Hosts,
    door: Door | None,
    stopping: Callable[[], bool],
    timeout: float,
) -> None:
    server = serve(listener, runs, hosts, door)
    _log.info("%d run%s at %s", len(runs), "" if len(runs) == 1 else "s", _url(listener))
    until = time.monotonic() + timeout if timeout else math.inf
    try:
        while not stopping():
            await asyncio.sleep(LOOK_SECONDS)
            if any(run.answered for run in runs):
                until = math.inf
            elif time.monotonic() >= until or (until < math.inf and all(run.problem for run in runs)):
                raise _nobody(runs[0], timeout)
    finally:
        server.stop()
        await server.close_all_connections()


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _nobody(run: WatchedRun, timeout: float) -> A3cdError:
    return run.problem or unanswered(run.where, timeout)
