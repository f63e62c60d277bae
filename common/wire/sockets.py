"""The four sockets of a3cd with the options that measurement gave; docs/protocol.md says why each is set."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

import zmq
from zmq.utils.monitor import recv_monitor_message

from common.errors import A3cdError, ConfigurationError, UnavailableError
from common.host.addresses import LAST_PORT, Address
from common.host.security.credential import Credential

HIGH_WATER_MARK = 8
"""Messages to one peer that may wait; credit keeps the real number far lower."""
UNREAD_MARK = 1024
"""Messages from one peer that may lie unread. At this mark libzmq stops reading the connection, and if the peer then
goes away the next heartbeat aborts the process (libzmq 4.3.5, `!_io_error`): credit's bound must hold long before."""
_HEARTBEAT_MS, _HEARTBEAT_TIMEOUT_MS = 2_000, 10_000
_BACKLOG, _PAIR_TRIES = 512, 50
_RECONNECT_MS, _RECONNECT_MAX_MS = 100, 5_000
_CONNECT_TIMEOUT_MS = 5_000


def _common(zsocket: zmq.Socket[bytes], max_bytes: int) -> zmq.Socket[bytes]:
    zsocket.setsockopt(zmq.LINGER, 0)
    zsocket.setsockopt(zmq.MAXMSGSIZE, max_bytes)
    zsocket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
    zsocket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS)
    zsocket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    zsocket.setsockopt(zmq.IPV6, 1)
    return zsocket


def router(context: zmq.Context[zmq.Socket[bytes]], max_bytes: int) -> zmq.Socket[bytes]:
    """Learner, everything addressed. An unreachable peer raises instead of losing the message silently."""
    zsocket = _common(context.socket(zmq.ROUTER), max_bytes)
    zsocket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    zsocket.setsockopt(zmq.ROUTER_HANDOVER, 1)
    zsocket.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK)
    zsocket.setsockopt(zmq.RCVHWM, UNREAD_MARK)
    return zsocket


def publisher(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    """Learner, weights. A slow subscriber misses versions; it never makes a queue."""
    zsocket = _common(context.socket(zmq.PUB), 1024)
    zsocket.setsockopt(zmq.SNDHWM, 2)
    return zsocket


def dealer(
    context: zmq.Context[zmq.Socket[bytes]],
    address: str,
    identity: bytes,
    max_bytes: int,
    credential: Credential | None = None,
    *,
    monitored: int = 0,
) -> zmq.Socket[bytes]:
    """Actor, launcher, observer. Nothing is queued for a learner that is not there.

    `monitored`: the events that `get_monitor_socket` of this socket tells, from the first connection on.
    """
    zsocket = _common(context.socket(zmq.DEALER), max_bytes)
    _show(zsocket, credential)
    if monitored:
        zsocket.get_monitor_socket(monitored)
    zsocket.setsockopt(zmq.ROUTING_ID, identity)
    zsocket.setsockopt(zmq.IMMEDIATE, 1)
    zsocket.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK)
    zsocket.setsockopt(zmq.RCVHWM, UNREAD_MARK)
    return _connect(zsocket, address)


def subscriber(
    context: zmq.Context[zmq.Socket[bytes]], address: str, max_bytes: int, credential: Credential | None = None
) -> zmq.Socket[bytes]:
    """Actor, weights. CONFLATE keeps the newest frame only; it allows exactly one subscription, the empty one."""
    zsocket = _common(context.socket(zmq.SUB), max_bytes)
    zsocket.setsockopt(zmq.CONFLATE, 1)
    zsocket.setsockopt(zmq.SUBSCRIBE, b"")
    _show(zsocket, credential)
    return _connect(zsocket, address)


def events(monitor: zmq.Socket[bytes]) -> Iterator[int]:
    """What a monitor socket has to tell by now, each a `zmq.EVENT_...`."""
    while monitor.poll(0):  # of one without events: 4 us; receiving without blocking raises, which takes 7
        yield recv_monitor_message(monitor)["event"]


def _show(zsocket: zmq.Socket[bytes], credential: Credential | None) -> None:
    if credential is not None:
        zsocket.setsockopt(zmq.CURVE_SERVERKEY, credential.learner_key.encode())
        zsocket.setsockopt(zmq.CURVE_PUBLICKEY, credential.pair.public.encode())
        zsocket.setsockopt(zmq.CURVE_SECRETKEY, credential.pair.secret.encode())


def _connect(zsocket: zmq.Socket[bytes], address: str) -> zmq.Socket[bytes]:
    zsocket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
    zsocket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
    zsocket.setsockopt(zmq.CONNECT_TIMEOUT, _CONNECT_TIMEOUT_MS)
    try:
        zsocket.connect(address)
    except zmq.ZMQError:
        zsocket.close()
        raise ConfigurationError(f"cannot connect to {address}: it must name one host and one port") from None
    return zsocket


def reserve(address: Address) -> socket.socket:
    """A listening TCP socket: the port is taken, and whoever connects waits, until `bind` hands it to ZeroMQ.

    So a learner can take its ports before the seconds that torch needs, and learn the model's size after.
    Raises UnavailableError for a port in use, ConfigurationError for an address that is not this machine's.
    """
    if address.port > LAST_PORT:
        raise ConfigurationError(f"cannot listen on {address}: the last port is {LAST_PORT}")
    host = "" if address.host == "*" else address.host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, address.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UnavailableError(
                f"{address} is in use: stop what listens there, or choose another port with --bind"
            ) from None
        reason = (error.strerror or str(error)).partition(" (")[0]
        raise ConfigurationError(f"cannot listen on {address}: {reason}") from None


def reserve_pair(address: Address) -> tuple[socket.socket, socket.socket]:
    """`reserve` for the port of `address` and the next one; with port 0, any two neighbours that are free."""
    for _ in range(_PAIR_TRIES):
        first = reserve(address)
        port = first.getsockname()[1]
        try:
            return first, reserve(address.with_port(port + 1))
        except A3cdError:
            first.close()
            if address.port:
                raise
    raise UnavailableError(f"no two neighbouring ports are free on {address.host}")


def inherit(descriptors: str) -> tuple[socket.socket, socket.socket]:
    """The pair that the process which started this one has reserved; `descriptors`: of both, as "5,6".

    Raises ConfigurationError where they are no listening sockets.
    """
    try:
        numbers = [int(one) for one in descriptors.split(",")]
        first, second = [socket.socket(fileno=number) for number in numbers[:2]]
        ports = [
            one.getsockname()[1] for one in (first, second) if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        ]
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--listeners {descriptors}: no two descriptors of sockets: {error}") from None
    if len(ports) != 2 or ports[1] != ports[0] + 1:
        raise ConfigurationError(f"--listeners {descriptors}: must listen on two neighbouring ports")
    return first, second


def bind(zsocket: zmq.Socket[bytes], listener: socket.socket) -> None:
    """Gives a reserved port to a ROUTER or PUB, which owns it from now on."""
    host, port = listener.getsockname()[:2]
    zsocket.setsockopt(zmq.USE_FD, listener.detach())
    zsocket.bind(f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}")
