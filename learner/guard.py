"""Observes each connection to the learner's ports, and ends those that `learner.connections` chooses.

libzmq's monitors report the descriptor of each connection, Linux counts its bytes (TCP_INFO), and shutdown(2) ends it:
libzmq then reads the end and cleans up. This runs in a thread of its own, since a step of the daemon may take long.
"""

import contextlib
import logging
import math
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import zmq

from common.host.process import release_memory, resident_bytes
from common.host.service.logs import LineLimit
from common.wire import tcp
from learner.connections import Bounds, Connection, Doorkeeper, Port
from learner.door import keep_out

LOOK_SECONDS = 0.05
"""Seconds between two looks at the memory, and at new and closed connections."""
YOUNG_SECONDS, YOUNG_LOOK_SECONDS = 1.0, 0.005
"""The guard looks at the second interval while a connection is younger than the first: a flood may be short."""
PAUSE_SECONDS = 0.002
"""Pause after each look, so that connections that arrive together are handled together."""
SCAN_SECONDS = 0.5
"""Seconds between two scans of the byte counts of all connections."""
SCANNED_AT_ONCE = 256
"""Connections counted before the daemon's thread has its turn: counting a thousand takes as long as answering a hundred
messages."""
SCAN_BYTES = 8 * 2**20
"""Growth of memory after which the bytes of all connections are counted at once."""
RELEASE_SECONDS = 1.0
"""Least seconds between two releases of freed memory: the system must clear what the next long message takes anew."""
LINES_PER_SECOND, LINES_AT_ONCE = 1.0, 20
"""Log lines about ended connections and refused peers, however many addresses they come from."""
FAILED = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
"""Failed handshakes that are logged. EVENT_HANDSHAKE_FAILED_NO_DETAIL is not: there a connection was just closed, as by
a probe that only looks at the port."""
_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
_EVENT = struct.Struct("=Hi")
"""The first frame from a monitor: the event and its value, which is a descriptor for the events used here."""
_log = logging.getLogger("learner")


class Guard:
    """Runs in a thread of its own; the daemon's thread may call its public methods meanwhile."""

    def __init__(self, bounds: Bounds, repeat_seconds: float, *, with_keys: bool) -> None:
        """`with_keys`: failed handshakes are logged; without keys they come from port scanners only."""
        self._events = _EVENTS | FAILED if with_keys else _EVENTS
        self._keeper = Doorkeeper(bounds)
        self._lines = LineLimit(repeat_seconds, LINES_PER_SECOND, LINES_AT_ONCE)
        self._monitors: dict[zmq.Socket[bytes], tuple[zmq.Socket[bytes], Port]] = {}
        self._connections: dict[tuple[Port, int], Connection] = {}
        """Open connections by port and descriptor, oldest first. The port is part of the key since the events of one
        port come in order, but those of the two ports do not."""
        self._listeners: dict[Port, socket.socket] = {}
        self._kept_out: dict[Port, set[str]] = {}
        self._lock = threading.Lock()
        """Held by the thread that uses monitors or connections."""
        self._all_read = False
        self._release_due = 0.0
        self._scan_due, self._scanned = 0.0, 0
        self._uncounted: list[Connection] = []
        """Connections that the current scan has not counted yet."""
        self._young: list[Connection] = []
        self._leaving: list[tuple[float, Connection]] = []
        """Connections that are to be ended later, with the time for each, the next one first."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)

    def watch(self, zsocket: zmq.Socket[bytes], port: Port, listener: socket.socket) -> None:
        """Watch a port; to be called before the socket is bound and before `start`. The guard owns `listener`."""
        self._monitors[zsocket] = zsocket.get_monitor_socket(self._events), port
        self._listeners[port] = listener

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop; to be called before the watched sockets are closed."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        for zsocket, (monitor, _) in self._monitors.items():
            zsocket.disable_monitor()
            monitor.close(linger=0)
        self._monitors.clear()
        for listener in self._listeners.values():
            keep_out(listener, ())
            listener.close()
        self._listeners.clear()

    # -- asked by the daemon -------------------------------------------------------------------------------------------

    def connection(self, descriptor: int) -> Connection | None:
        """Return the connection with this descriptor, on which a message came; None: it is gone."""
        with self._lock:
            self._take_events()
            return self._connections.get(("control", descriptor))

    def end(self, why: str, chosen: Callable[[Connection], bool], after_seconds: float = 0.0) -> int:
        """End the chosen connections after `after_seconds`, which lets sent messages leave; return how many."""
        with self._lock:
            self._take_events()
            some = [one for one in self._connections.values() if not one.closing and chosen(one)]
            for one in some:
                one.closing = True
                if after_seconds > 0.0:
                    self._leaving.append((time.monotonic() + after_seconds, one))
                else:
                    self._end(one, why)
            return len(some)

    def all_read(self) -> None:
        """Note that no message is waiting: the memory of the process is now what it needs."""
        self._all_read = True

    def ban(self, address: str, seconds: float) -> None:
        with self._lock:
            now = time.monotonic()
            self._keeper.ban(address, now + seconds)
            self._close_doors(now)

    # ------------------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Look at connections and memory until `close`. Failures are logged and the loop goes on: if nobody took the
        monitors' events, libzmq would block.
        """
        with selectors.DefaultSelector() as selector:
            for monitor, _ in self._monitors.values():
                selector.register(int(monitor.get(zmq.FD)), selectors.EVENT_READ)
            while not self._closing.wait(PAUSE_SECONDS):
                try:
                    selector.select(YOUNG_LOOK_SECONDS if self._young else LOOK_SECONDS)
                    self._look(time.monotonic(), resident_bytes())
                except Exception as error:
                    self._failed(error)

    def _look(self, now: float, memory: int) -> None:
        with self._lock:
            if self._all_read:
                self._all_read = False
                memory = self._calmed(now, memory)
            came = self._take_events()
            came |= self._scan(now, memory)
            self._young = [one for one in self._young if now - one.since < YOUNG_SECONDS and not one.closing]
            if came:
                self._close_some(now, memory)
            self._close_doors(now)
            while self._leaving and self._leaving[0][0] <= now:
                self._end(self._leaving.pop(0)[1], "")

    def _calmed(self, now: float, memory: int) -> int:
        """Count growth from this memory, as no message is waiting; give freed memory back now and then. Return memory.

        The memory that a flood took is free but still resident: if it counted as needed, each flood could take more.
        """
        grown = memory > self._keeper.calm + SCAN_BYTES
        if grown and now >= self._release_due:
            self._release_due = now + RELEASE_SECONDS
            release_memory()
            memory = resident_bytes()
            grown = False
        self._keeper.all_read(int(self._keeper.calm) if grown else memory)
        return memory

    def _scan(self, now: float, memory: int) -> bool:
        """Count the bytes of all connections in turns, or at once if memory grows; in between, those of the young ones.

        Return whether there is something to judge.
        """
        if memory > self._scanned + SCAN_BYTES:
            self._scan_due, self._scanned, self._uncounted = now + SCAN_SECONDS, memory, []
            self._count(now, self._connections.values())
            return True
        if not self._uncounted and now >= self._scan_due:
            self._scan_due, self._scanned = now + SCAN_SECONDS, memory
            self._uncounted = list(self._connections.values())
        some, self._uncounted = self._uncounted[:SCANNED_AT_ONCE], self._uncounted[SCANNED_AT_ONCE:]
        self._count(now, (one for one in some if one.gone == math.inf))
        self._count(now, self._young)
        return bool(self._young) or (bool(some) and not self._uncounted)

    def _failed(self, error: Exception) -> None:
        suffix = self._lines.admit(time.monotonic(), "guard", throttled=False)
        if suffix is not None:
            _log.error("the guard of the ports failed, and goes on: %r%s", error, suffix, exc_info=error)
        self._closing.wait(LOOK_SECONDS)

    def _take_events(self) -> bool:
        """Take in new and closed connections; return whether there is a new one."""
        came = False
        for monitor, port in self._monitors.values():
            for event, descriptor in _events(monitor):
                if event == zmq.EVENT_ACCEPTED:
                    came = True
                    self._accepted(descriptor, port)
                elif event == zmq.EVENT_DISCONNECTED:
                    self._gone(port, descriptor)
                else:
                    self._say("handshake", "a peer without a key, or with another learner's, was refused")
        return came

    def _gone(self, port: Port, descriptor: int) -> None:
        if one := self._connections.pop((port, descriptor), None):
            one.gone = time.monotonic()

    def _accepted(self, descriptor: int, port: Port) -> None:
        self._gone(port, descriptor)
        peer = tcp.peer(descriptor)
        if peer is None:  # the connection is gone already
            return
        now = time.monotonic()
        one = self._connections[port, descriptor] = Connection(descriptor, peer, port, since=now, moved=now)
        self._young.append(one)
        if why := self._keeper.refuses(now, port, one.address):
            self._end(one, why)

    def _count(self, now: float, connections: Iterable[Connection]) -> None:
        for one in connections:
            if found := tcp.counted(one.descriptor):
                one.count(now, *found)

    def _close_some(self, now: float, memory: int) -> None:
        for one, why in self._keeper.to_close(now, list(self._connections.values()), memory):
            self._end(one, why)

    def _close_doors(self, now: float) -> None:
        for port, listener in self._listeners.items():
            addresses = self._keeper.kept_out(now, port)
            if addresses != self._kept_out.get(port, set()):
                self._kept_out[port] = addresses
                keep_out(listener, addresses)

    def _end(self, one: Connection, why: str) -> None:
        one.closing = True
        if tcp.peer(one.descriptor) != one.peer:  # closed by itself, so that the descriptor may be another's by now
            return
        with contextlib.suppress(OSError), tcp.borrowed(one.descriptor) as connection:
            connection.shutdown(socket.SHUT_RDWR)
        if why:
            self._say(f"{one.address} {one.port}", f"a connection from {one.address} was ended: it {why}")

    def _say(self, key: str, text: str) -> None:
        if (suffix := self._lines.admit(time.monotonic(), key)) is not None:
            _log.warning("%s%s", text, suffix)


def _events(monitor: zmq.Socket[bytes]) -> Iterator[tuple[int, int]]:
    while int(monitor.get(zmq.EVENTS)) & zmq.POLLIN:
        head, _ = monitor.recv_multipart(zmq.NOBLOCK)
        event, value = _EVENT.unpack(head)
        yield event, value
