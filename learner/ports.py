"""The learner's two ports: one for messages (ROUTER), one for broadcasts (PUB); who may use them, and how much.

`learner.authentication` checks keys, `learner.guard` single connections.
"""

import math
import socket
import time
from collections.abc import Collection, Iterable, Iterator

import zmq

from common.host.process import available_bytes, open_descriptors, raise_descriptor_limit
from common.settings.sections import Exchange
from common.wire import sockets, tcp
from common.wire.frames import Buffer, pack
from common.wire.messages import AnyMessage, Status
from learner.authentication import Authenticator, LearnerKeys
from learner.connections import PORTS, SUBSCRIPTION_BYTES, Bounds, Connection, Progress
from learner.effects import Disconnect, Publish, Send
from learner.guard import Guard

FAREWELL_MS = 300
"""Time for the last messages to leave."""
SHARED_BYTES = 65536
"""A body of at least this length is not copied for each peer that it is sent to."""
SPARE_DESCRIPTORS = 48
"""Descriptors left for files, and for connections that arrive faster than they can be ended."""
UNREAD_SHARE = 0.25
"""Share of the memory free at the start that the unread messages of all peers together may take."""
SLACK_BYTES = 2**16
"""Bytes that may be unread in addition to the longest messages: heartbeats, hellos."""
KEY_BYTES = 33
"""Bytes by which CurveZMQ makes a frame longer."""
AT_ONCE = int(zmq.NOBLOCK)
"""Flag for receiving a frame, and for sending the last frame of a message."""
NOT_LAST = int(zmq.NOBLOCK | zmq.SNDMORE)
"""Flags for sending the frames before it. Combined here, since combining them takes as long as sending a frame."""
LONG_BROADCAST_BYTES = 4 * 2**20
"""Broadcasts longer than this, to all subscribers together, get a thread of libzmq of their own. A thread sends this
much in some 5 ms, and meanwhile neither takes messages nor sends answers; for less, another thread costs more than it
gains."""
KEPT_SECONDS = 300.0
"""Seconds after which the record of a closed connection is dropped: none of its messages is left by then."""


class Ports:
    """To be used by one thread."""

    def __init__(
        self,
        listeners: Iterable[socket.socket],
        keys: LearnerKeys | None,
        *,
        max_bytes: int,
        unread_messages: int,
        broadcast_bytes: int,
        repeat_seconds: float,
    ) -> None:
        """Listen on sockets that the caller keeps owning.

        max_bytes: longest frame of a message, and about the longest message.
        unread_messages: messages of this length that one honest peer may send while the learner is busy.
        broadcast_bytes: bytes of one broadcast of weights to as many actors as there may be.
        """
        room = raise_descriptor_limit() - open_descriptors() - SPARE_DESCRIPTORS
        bounds = Bounds(
            message_bytes=max_bytes + SLACK_BYTES,
            unread_bytes=unread_messages * max_bytes + SLACK_BYTES,
            all_unread_bytes=available_bytes() * UNREAD_SHARE,
            connections=max(1, room),
            counts_bytes=tcp.counts_bytes,
        )
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(2 if broadcast_bytes > LONG_BROADCAST_BYTES else 1)
        self.authenticator = None if keys is None else Authenticator(self._context, keys, repeat_seconds)
        """None without keys."""
        self._frame_bytes = 0 if keys is None else KEY_BYTES
        """Bytes by which encryption makes a frame longer, as the kernel counts it."""
        self._guard = Guard(bounds, repeat_seconds, with_keys=keys is not None)
        self._router = sockets.router(self._context, max_bytes)
        self._publisher = sockets.publisher(self._context)
        if self._context.get(zmq.IO_THREADS) > 1:
            for number, zsocket in enumerate((self._router, self._publisher)):
                zsocket.setsockopt(zmq.AFFINITY, 1 << number)
        self._connections: dict[bytes, Connection] = {}
        """Connections on which a message has come, by routing id."""
        self._status: tuple[Status, bytes] | None = None
        self._tidied = time.monotonic()
        self.all_read = False
        """Whether the last `receive` left no message waiting."""
        for zsocket, port, listener in zip((self._router, self._publisher), PORTS, listeners, strict=True):
            self._guard.watch(zsocket, port, listener.dup())
            if port == "weights":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SUBSCRIPTION_BYTES)
            if self.authenticator is not None:
                self.authenticator.guard(zsocket)
            sockets.bind(zsocket, listener.dup())
        self._guard.start()

    @property
    def pollable(self) -> list[zmq.Socket[bytes]]:
        """The sockets that are readable when there is something to do."""
        return [self._router] if self.authenticator is None else [self._router, self.authenticator.socket]

    def admit(self, now: float) -> set[str]:
        """Answer the requests to be let in; end the connections of keys no longer allowed, and return their names."""
        if self.authenticator is None:
            return set()
        self.authenticator.serve(now)
        revoked = self.authenticator.revoked(now)
        if revoked:
            self._end_keys(revoked, "came with a key that is not allowed any more, or from the address of one that did")
        return revoked

    def _end_keys(self, names: Collection[str], why: str) -> None:
        """End the connections of these keys.

        Subscribers never say who they are, so others at the same addresses lose their connections too.
        """
        assert self.authenticator is not None
        addresses = self.authenticator.addresses(names)
        self._guard.end(why, lambda one: one.key_name in names or (not one.key_name and one.address in addresses))

    def receive(self, until: float) -> Iterator[tuple[bytes, list[Buffer], str, str]]:
        """Yield the waiting messages, except those of connections that are being ended, until that time.

        Reads at least one. Yields for each its routing id, its frames, the name of the key (empty: none) and the
        address that it came from.
        """
        self.all_read = False
        receive = self._router.recv
        while True:
            try:
                routing_id = receive(AT_ONCE)
            except zmq.Again:
                self.all_read = True
                self._guard.all_read()
                return
            frames = [receive(AT_ONCE, copy=False)]
            while frames[-1].more:  # `recv_multipart` asks the socket instead, which takes longer than reading does
                frames.append(receive(AT_ONCE, copy=False))
            connection = self._connections.get(routing_id) or self._new(routing_id, frames)
            buffers: list[Buffer] = [frame.buffer for frame in frames]
            connection.delivered += self._bytes(buffers)
            sure = connection.gone == math.inf and self.authenticator is None
            if not connection.closing and (sure or self._is_of(connection, frames[-1])):
                yield routing_id, buffers, connection.key_name, connection.address
            if time.monotonic() >= until:  # checked for messages that are not yielded, too: there may be many
                return

    def _new(self, routing_id: bytes, frames: list[zmq.Frame]) -> Connection:
        """Return the connection on which this first message came; libzmq tells it only by a property of the message."""
        now = time.monotonic()
        try:
            descriptor = int(frames[-1].get("__fd"))
        except zmq.ZMQError:  # ZMTP 1.0 or 2.0, which no a3cd peer speaks: libzmq does not know where it comes from
            self._connections[routing_id] = nobody = Connection(-1, ("", 0), "control", since=now, gone=now)
            nobody.closing = True
            return nobody
        connection = self._guard.connection(descriptor)
        if connection is None or connection.spoke:  # the connection is gone; another may have its descriptor by now
            connection = Connection(descriptor, (_address(frames[-1]), 0), "control", since=now, gone=now)
        connection.spoke = True
        if self.authenticator is not None:
            connection.key_name = str(frames[-1].get("User-Id"))
        self._connections[routing_id] = connection
        return connection

    def _is_of(self, connection: Connection, frame: zmq.Frame) -> bool:
        """Whether a message under the routing id of a connection may have come on it.

        libzmq lets a peer choose an id that nobody has any more: it must not be heard as the peer that had it. With
        keys each message is looked at, since the guard learns of a closed connection some moments later.
        """
        try:
            if self.authenticator is None:
                return _address(frame) == connection.address
            return str(frame.get("User-Id")) == connection.key_name
        except zmq.ZMQError:
            return False

    def _bytes(self, frames: list[Buffer]) -> int:
        """Return the bytes of a message as the kernel counted them: ZMTP's header of a frame has two bytes, or nine."""
        total = 0
        for frame in frames:
            size = len(frame) + self._frame_bytes
            total += size + (2 if size < 256 else 9)
        return total

    def send(self, effect: Send) -> None:
        """Send a message; it is lost if the peer is gone or does not read. A live peer asks again for what it needs."""
        header = self._packed(effect.message)
        if not self._send(effect.peer, header, effect.body):
            # libzmq checks only once in a millisecond how much a peer has read; a fast peer may have read more by now.
            self._router.get(zmq.EVENTS)
            self._send(effect.peer, header, effect.body)

    def _send(self, peer: bytes, header: bytes, body: Buffer | None) -> bool:
        """Send the frames of a message; return False if the queue of messages to the peer is full."""
        send = super(zmq.Socket, self._router).send  # skips what pyzmq does first for other kinds of sockets
        try:
            send(peer, NOT_LAST)
            if body is None:
                send(header, AT_ONCE)
            else:
                send(header, NOT_LAST)
                if len(body) < SHARED_BYTES:
                    send(body, AT_ONCE)
                else:
                    send(body, AT_ONCE, copy=False)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            return error.errno != zmq.EAGAIN
        return True

    def _packed(self, message: AnyMessage) -> bytes:
        """Return the packed header of a message; a status, which goes to all that ask for it, is packed once."""
        if not isinstance(message, Status):
            return pack(message)
        if self._status is None or self._status[0] is not message:
            self._status = message, pack(message)
        return self._status[1]

    def publish(self, effect: Publish) -> None:
        self._publisher.send(effect.frame, zmq.NOBLOCK, copy=len(effect.frame) < SHARED_BYTES)

    def disconnect(self, effect: Disconnect) -> None:
        """End the connection of a peer after a last message to it; if its key is banned, all connections of the key."""
        connection = self._connections.get(effect.peer)
        if connection is None:
            return
        self._guard.end("", lambda one: one is connection, after_seconds=FAREWELL_MS / 1e3)
        connection.closing = True  # set even if it is gone, so that its remaining messages are ignored
        if effect.ban_seconds > 0.0 and connection.key_name and self.authenticator is not None:
            self.authenticator.ban(connection.key_name, time.monotonic() + effect.ban_seconds)
            self._end_keys({connection.key_name}, "came with a key that is banned for a while")
        elif effect.ban_seconds > 0.0 and connection.address:
            self._guard.ban(connection.address, effect.ban_seconds)

    def progress(self) -> dict[bytes, Progress]:
        """Return the progress of the connections on which bytes have moved since the last call, by routing id.

        A slow link may need minutes for a long message, in which its sender or receiver says nothing else.
        """
        now = time.monotonic()
        if now > self._tidied + KEPT_SECONDS:
            self._tidied = now
            old = now - KEPT_SECONDS
            self._connections = {
                one: connection for one, connection in self._connections.items() if connection.gone > old
            }
        return dict(self._progress())

    def _progress(self) -> Iterator[tuple[bytes, Progress]]:
        for routing_id, connection in self._connections.items():
            moved = connection.moved  # the guard may write it later than the time it names, so no clock is compared
            if moved != connection.told:
                connection.told = moved
                yield routing_id, Progress(moved, connection.acknowledged)

    def close(self) -> None:
        """Close the ports after the last messages have left."""
        self._guard.close()
        self._router.close(linger=FAREWELL_MS)
        self._publisher.close(linger=0)
        if self.authenticator is not None:
            self.authenticator.close()
        self._context.term()


def unread_messages(exchange: Exchange) -> int:
    """Return how many of the longest messages an honest actor may send while the learner is busy for a minute."""
    if exchange.kind == "actions":
        return 32 * exchange.groups  # each is sent again every two seconds
    return 8 * exchange.credit if exchange.credit else 1024  # sent again every ten seconds; without credit, no limit


def _address(frame: zmq.Frame) -> str:
    return tcp.plain(str(frame.get("Peer-Address")))
