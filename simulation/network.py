"""The learner's two ports and the connections to them: ZeroMQ and TCP as far as the cores can notice them.

A connection breaks when its cable has been cut for a while, when the learner ends it, or when the learner's process
ends. Everything under way is then lost, and the peer connects again as soon as it can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Protocol

from common.wire.frames import Buffer, pack
from common.wire.messages import AnyMessage
from simulation.channel import Channel, Line
from simulation.event_queue import Event, EventQueue
from simulation.settings import LOOPBACK, Link

Frames = list[bytes]
BREAK_SECONDS = 10.0
"""Time after which a connection without a sign of life is given up; ZeroMQ asks for one every two seconds."""
RECONNECT_SECONDS = 0.1
BROADCASTS_UNDER_WAY = 2
"""Most broadcasts under way to one subscriber; the publisher drops the rest."""


def frames_of(message: AnyMessage, body: Buffer | None) -> Frames:
    """Returns the frames as on the wire: the two ends share no memory."""
    return [pack(message)] if body is None else [pack(message), bytes(body)]


class Listener(Protocol):
    """The learner's process."""

    def receive(self, routing_id: bytes, address: str, frames: Frames) -> None: ...


class Peer(Protocol):
    """The process at the other end."""

    def receive(self, frames: Frames) -> None: ...

    def hear(self, frame: bytes) -> None:
        """A broadcast has arrived."""

    def connected(self) -> None:
        """There is a new connection."""

    def arrived(self, size: int) -> None:
        """`size` bytes have arrived at the learner's host."""


@dataclass
class Connection:
    """One process's connection to the learner, for as long as the process lives."""

    routing_id: bytes
    address: str
    peer: Peer
    up: Channel
    down: Channel
    news: Channel
    open: bool = False
    subscribed: bool = False
    gives_up: Event | None = None
    """The end of the connection, unless its cut cable is healed before; None: the cable is whole."""
    closed: bool = False
    """The process has ended."""
    generation: int = 0
    """Increased each time the connection breaks."""
    held: list[Callable[[], object]] = field(default_factory=list)
    """Arrivals that wait until the cable is whole again."""

    @property
    def cut(self) -> bool:
        return self.gives_up is not None


class Network:
    def __init__(self, queue: EventQueue, seed: int, learner_mbit: float = 0.0) -> None:
        self.listener: Listener | None = None
        """None: no learner listens."""
        self.broadcasts_dropped = 0
        self._queue = queue
        self._seed = seed
        self._egress, self._ingress = Line(learner_mbit, fair=True), Line(learner_mbit, fair=True)
        self._connections: dict[bytes, Connection] = {}

    def connect(self, routing_id: bytes, peer: Peer, link: Link, address: str) -> Connection:
        """Connects a new process, now or once there is a learner."""
        cable_up, cable_down = Line(link.mbit), Line(link.mbit)

        def channel(way: str, *lines: Line) -> Channel:
            return Channel(self._queue, link, list(lines), Random(f"{self._seed} {routing_id!r} {way}"))

        connection = Connection(
            routing_id,
            address,
            peer,
            up=channel("up", cable_up, self._ingress),
            down=channel("down", cable_down, self._egress),
            news=channel("news", cable_down, self._egress),
        )
        self._connections[routing_id] = connection
        self._open(connection)
        return connection

    def send_up(self, connection: Connection, frames: Frames) -> bool:
        """False: there is no connection, and nothing was queued."""
        if not connection.open:
            return False
        size = sum(map(len, frames))

        def arrive() -> None:
            connection.peer.arrived(size)
            if self.listener is not None:
                self.listener.receive(connection.routing_id, connection.address, frames)

        connection.up.send(size, self._guarded(connection, connection.up, arrive))
        return True

    def send_down(self, routing_id: bytes, frames: Frames) -> None:
        """Sends to a peer, which may be gone."""
        connection = self._connections.get(routing_id)
        if connection is not None and connection.open:
            size = sum(map(len, frames))
            arrive = partial(connection.peer.receive, frames)
            connection.down.send(size, self._guarded(connection, connection.down, arrive))

    def publish(self, frame: bytes) -> None:
        """Sends a broadcast; subscribers in a row at whom it arrives at the same time share one event."""
        groups: list[tuple[float, list[tuple[Connection, int]]]] = [(-1.0, [])]
        for connection in list(self._connections.values()):
            if not connection.open or not connection.subscribed:
                continue
            if connection.news.under_way >= BROADCASTS_UNDER_WAY:
                self.broadcasts_dropped += 1
                continue
            for time in connection.news.arrivals(len(frame)):
                if time != groups[-1][0]:
                    groups.append((time, []))
                groups[-1][1].append((connection, connection.generation))
        for time, group in groups[1:]:
            self._queue.at(time, partial(self._hear, frame, group))

    def _hear(self, frame: bytes, group: list[tuple[Connection, int]]) -> None:
        """A broadcast arrives at some subscribers, each with the generation of its connection when it was sent."""
        for connection, generation in group:
            connection.news.under_way -= 1
            if connection.generation == generation and not connection.cut:
                connection.peer.hear(frame)
            elif connection.generation == generation:
                hear = partial(connection.peer.hear, frame)
                connection.held.append(self._guarded(connection, connection.news, hear))

    def _guarded(self, connection: Connection, channel: Channel, arrive: Callable[[], object]) -> Callable[[], object]:
        """Returns `arrive` guarded: lost if the connection has broken since, and held back while its cable is cut."""
        generation = connection.generation

        def come() -> None:
            if connection.generation != generation:
                survive = connection.up.link.survive
                if not (survive and channel is connection.up and channel.rng.random() < survive):
                    return
            if connection.cut:
                connection.held.append(come)
            else:
                arrive()

        return come

    # -- what happens to connections -----------------------------------------------------------------------------------

    def cut(self, connection: Connection) -> None:
        if connection.cut or connection.closed:
            return
        connection.gives_up = self._queue.after(BREAK_SECONDS, partial(self.break_off, connection))

    def heal(self, connection: Connection) -> None:
        if connection.gives_up is None:
            return
        connection.gives_up.cancel()
        connection.gives_up = None
        held, connection.held = connection.held, []
        for come in held:
            come()
        self._open_later(connection, RECONNECT_SECONDS)

    def disconnect(self, routing_id: bytes, seconds: float = 0.0) -> None:
        """Ends a connection on the learner's behalf; the peer cannot connect again for `seconds`."""
        connection = self._connections.get(routing_id)
        if connection is not None:
            self.break_off(connection, max(seconds, RECONNECT_SECONDS))

    def close(self, connection: Connection) -> None:
        """The peer's process has ended; messages that it has sent still arrive."""
        connection.closed, connection.open = True, False
        self._connections.pop(connection.routing_id, None)

    def learner_gone(self) -> None:
        """The learner's process has ended; peers connect again once there is another."""
        self.listener = None
        for connection in self._connections.values():
            self.break_off(connection)

    def learner_back(self, listener: Listener) -> None:
        self.listener = listener
        for connection in self._connections.values():
            self._open_later(connection, RECONNECT_SECONDS)

    def break_off(self, connection: Connection, seconds: float = RECONNECT_SECONDS) -> None:
        """Breaks a connection: everything under way is lost; it is opened again as soon as that is possible."""
        connection.generation += 1
        connection.open = False
        connection.held.clear()
        for channel in (connection.up, connection.down, connection.news):
            channel.begin()
        self._open_later(connection, seconds)

    def _open_later(self, connection: Connection, seconds: float) -> None:
        self._queue.after(seconds, lambda: self._open(connection))

    def _open(self, connection: Connection) -> None:
        if connection.open or connection.closed or connection.cut or self.listener is None:
            return
        connection.open = True
        connection.peer.connected()

    def calm(self) -> None:
        """From now on every cable is whole, and every link is as good as loopback."""
        for connection in self.connections():
            for channel in (connection.up, connection.down, connection.news):
                channel.link = LOOPBACK
            self.heal(connection)

    def connections(self) -> list[Connection]:
        return list(self._connections.values())
