"""A peer's connection to the learner: one non-blocking DEALER; the learner need not be running."""

import math
import os
import platform
import secrets
from collections.abc import Iterator

import msgspec
import zmq

from common.errors import ConfigurationError, UnavailableError, WireError
from common.host.backoff import Backoff
from common.host.load import LoadMeter
from common.host.security.access import LearnerEndpoint
from common.host.versions import own_version, versions
from common.wire import sockets, tcp
from common.wire.frames import Buffer, pack, split
from common.wire.membership import HELLO_SECONDS, MAX_DRAIN, REFUSED_SECONDS, Membership
from common.wire.messages import MAX_NAME, PROTOCOL, AnyMessage, Heartbeat, Hello, Role

MAX_REPLY_BYTES = 2**30
"""Longest message that a peer takes from a learner: it does not know the model's size before the welcome."""
MAX_FAILED_HANDSHAKES = 50
"""Failed handshakes in a row, without a reason, that count as a refusal: about five seconds; one or two occur when a
learner stops."""
_WATCHED = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_CONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_DISCONNECTED
)
ANSWER_SECONDS = 5.0
"""Time in which a learner that refuses a key closes the connection. A handshake that fails later was not answered at
all, as by a relay that still waits for its learner."""
TRIES_PER_FAMILY = 6
"""Failed tries, some six seconds, after which the other kind of address of a name is tried, IPv6 or IPv4."""


def unanswered(where: object, seconds: float) -> UnavailableError:
    """Return the error to raise if no learner has answered at this address for this many seconds."""
    return UnavailableError(
        f"no learner answers at {where} (waited {seconds:g} s): is it running there? "
        f"`a3cd doctor --learner {where}` checks the connection"
    )


def introduce(
    role: Role,
    access: LearnerEndpoint,
    name: str = "",
    *,
    slots: int = 0,
    launcher: str = "",
    codecs: tuple[str, ...] = (),
) -> Hello:
    """Return this process's hello; `name`: by default host and process id. Raises ConfigurationError if it is long."""
    host = platform.node() or "unknown"
    name = access.name(name or f"{host}-{os.getpid()}")
    if len(name) > MAX_NAME:
        raise ConfigurationError(f"a name of {len(name)} characters: a peer's name has at most {MAX_NAME}")
    return Hello(
        protocol=PROTOCOL,
        role=role,
        name=name,
        incarnation=secrets.token_hex(16),  # nobody can guess it and take over the peer's connection
        host=host,
        pid=os.getpid(),
        versions=versions(),
        codecs=list(codecs),
        launcher=launcher,
        slots=slots,
    )


class LearnerLink:
    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], access: LearnerEndpoint, load: LoadMeter | None = None
    ) -> None:
        """load: measures how busy this host is, for each heartbeat."""
        self._access = access
        self._load = load
        self.connected = False
        """Whether there was a connection when `watch` last looked."""
        self._failures = 0
        """Failed handshakes in a row, but for those that nobody answered."""
        self._begun = 0.0
        """When the last handshake began."""
        self._reconnects = Backoff(HELLO_SECONDS, REFUSED_SECONDS)
        self._descriptor = -1
        self._counted = (0, 0)
        """Bytes received, and bytes sent and acknowledged, when the connection was last looked at."""
        self._arrived = 0
        self._connect_due = math.inf
        """When a connection that was refused is tried again."""
        self._tries = 0
        """Failed tries to connect in a row."""
        self.ipv6 = access.address.is_ipv6
        """Whether an IPv6 address of the learner's host is tried, or an IPv4 address."""
        self._unreadable = ""
        """Why a message from the learner could not be read; empty: there was none since `watch` last looked."""
        self.socket = sockets.dealer(
            context, str(access.address), MAX_REPLY_BYTES, access.credential, ipv6=self.ipv6, monitored=_WATCHED
        )
        self.monitor = self.socket.get_monitor_socket()
        """Readable when `watch` has something to do."""

    def send(self, message: AnyMessage, body: Buffer | None = None) -> bool:
        """Send without waiting; return False, with nothing queued, if there is no connection that `watch` has seen.

        A hello sent before `watch` sees the connection would be answered, but the peer would then take itself for
        unknown to the learner.
        """
        if not self.connected:
            return False
        if isinstance(message, Heartbeat) and self._load is not None and (load := self._load.look()) is not None:
            message = msgspec.structs.replace(message, **load._asdict())
        header = pack(message)
        frames: list[Buffer] = [header] if body is None else [header, body]
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=body is None or len(body) < 65536)
        except zmq.Again:
            return False
        return True

    def receive(self) -> Iterator[tuple[AnyMessage, Buffer | None]]:
        """Yield up to `MAX_DRAIN` messages that have arrived; drop anything that is not a message."""
        for _ in range(MAX_DRAIN):
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            try:
                yield split([frame.buffer for frame in frames])
            except WireError as error:
                self._unreadable = str(error)

    def watch(self, now: float, membership: Membership) -> bool:
        """Tell `membership` what keeps this peer out, and whether bytes move; return whether there is a new connection.

        Raises RefusedError if the peer is not patient and the keys of the two ends do not match. A patient peer
        connects again, with growing pauses.
        """
        connected = False
        for event, value in sockets.events_with_values(self.monitor):
            if event == zmq.EVENT_CONNECTED:
                self._descriptor, self._counted, self._tries, self._begun = value, (0, 0), 0, now
            elif event == zmq.EVENT_CONNECT_RETRIED:
                self._retried()
            elif event == zmq.EVENT_DISCONNECTED:
                self._descriptor, self.connected = -1, False
            elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._failures = 0
                self._reconnects.reset()
                self.connected = connected = True
            else:
                self._failed(now, event, membership)
        if self._descriptor >= 0 and (counted := tcp.counted(self._descriptor) or self._counted) != self._counted:
            self._arrived += max(0, counted[1] - self._counted[1])
            self._counted = counted
            membership.alive(now)
        if now >= self._connect_due:
            self._connect_due = math.inf
            self.socket.connect(str(self._access.address))
        why, self._unreadable = self._unreadable, ""
        if why and not membership.member:
            text = (
                f"what the learner at {self._access.address} says is not understood here (a3cd {own_version()}): {why}"
            )
            membership.refused(now, text)
        if connected:
            self.socket.get(zmq.EVENTS)  # takes the new connection over from ZeroMQ's own thread
        return connected

    def _retried(self) -> None:
        """After some failed tries, try the other kind of address of a name, which may have both."""
        self._tries += 1
        address = self._access.address
        if self._tries % TRIES_PER_FAMILY or self._connect_due < math.inf or not address.is_name:
            return
        self.ipv6 = not self.ipv6
        self.socket.disconnect(str(address))
        self.socket.setsockopt(zmq.IPV6, int(self.ipv6))
        self.socket.connect(str(address))

    def arrived(self) -> int:
        """Return the bytes that the learner's host has received since the last call; 0 if the system does not say."""
        arrived, self._arrived = self._arrived, 0
        return arrived

    def _failed(self, now: float, event: int, membership: Membership) -> None:
        """Note a failed handshake. With a reason it counts at once; without, which a network may cause, if it lasts."""
        no_detail = event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        if no_detail and now - self._begun > ANSWER_SECONDS:
            return
        self._failures += 1
        if no_detail and self._failures < MAX_FAILED_HANDSHAKES:
            return
        membership.refused(now, _why_refused(event, self._access))
        if self._connect_due == math.inf:
            self.socket.disconnect(str(self._access.address))
            self._connect_due = now + self._reconnects.next()

    def close(self) -> None:
        """Close, after at most 0.1 s in which a last goodbye can be sent."""
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=100)


def _why_refused(event: int, access: LearnerEndpoint) -> str:
    where, credential = access.address, access.credential
    if credential is None:
        return f"the learner at {where} talks only to peers with a key: `a3cd keys invite NAME` on its host gives one"
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
        pair = credential.pair
        return (
            f"the learner at {where} does not let the key of {pair.name} in: on its host, "
            f"`a3cd keys allow '{pair.public}' --name {pair.name}`"
        )
    if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
        return f"the learner at {where} was started without keys: start it with --keys, or this peer with --insecure"
    return (
        f"what listens at {where} does not hold the learner's key {credential.learner_key}: "
        "a wrong address, or a learner with a new key that must invite this host again"
    )
