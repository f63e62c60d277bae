"""The four ZeroMQ sockets of a3cd and their options; docs/protocol.md gives the reason for each option."""

import errno
import socket
import struct
from collections.abc import Iterator
from typing import Any

import zmq

from common.errors import A3cdError, ConfigurationError, UnavailableError
from common.host.addresses import LAST_PORT, Address
from common.host.security.credential import Credential

HIGH_WATER_MARK = 8
"""Messages that may wait for one peer; credit keeps the real number far lower."""
_Options = dict[int, int | bytes]
_COMMON: _Options = {
    zmq.LINGER: 0,
    zmq.RCVHWM: 0,  # no mark: a peer that reaches one can abort this process (docs/protocol.md)
    zmq.HEARTBEAT_IVL: 0,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 5,
    zmq.TCP_KEEPALIVE_INTVL: 2,
    zmq.TCP_KEEPALIVE_CNT: 5,
    zmq.TCP_MAXRT: 15_000,
}
"""Options of every socket; times in milliseconds, those of TCP_KEEPALIVE in seconds."""
_LISTENING: _Options = {zmq.HANDSHAKE_IVL: 10_000, zmq.IPV6: 1}
_CONNECTING: _Options = {zmq.RECONNECT_IVL: 100, zmq.RECONNECT_IVL_MAX: 5_000, zmq.CONNECT_TIMEOUT: 5_000}
_BACKLOG = 512
_PAIR_TRIES = 50
_EVENT = struct.Struct("=hi")
"""Kind and value of an event. zmq.utils.monitor reads them too, but would load asyncio in every process of a3cd."""


def router(context: zmq.Context[zmq.Socket[bytes]], max_bytes: int) -> zmq.Socket[bytes]:
    """Return the learner's socket for messages. Sending to a peer that is gone raises instead of losing the message."""
    return _socket(context, zmq.ROUTER, max_bytes, {zmq.ROUTER_MANDATORY: 1, zmq.SNDHWM: HIGH_WATER_MARK, **_LISTENING})


def publisher(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    """Return the learner's socket for broadcasts. A slow subscriber misses versions instead of queueing them."""
    return _socket(context, zmq.PUB, 1024, {zmq.SNDHWM: 2, **_LISTENING})


def dealer(
    context: zmq.Context[zmq.Socket[bytes]],
    address: str,
    max_bytes: int,
    credential: Credential | None = None,
    *,
    ipv6: bool = False,
    monitored: int = 0,
) -> zmq.Socket[bytes]:
    """Return a peer's socket for messages. Nothing is queued without a connection; the learner names each connection.

    Args:
        ipv6: whether the address is an IPv6 address, or of a name the IPv6 address is tried; ZeroMQ tries one alone.
        monitored: the events (`zmq.EVENT_...`) that this socket's monitor reports.
    """
    options: _Options = {zmq.IMMEDIATE: 1, zmq.SNDHWM: HIGH_WATER_MARK, zmq.IPV6: int(ipv6), **_CONNECTING}
    zsocket = _socket(context, zmq.DEALER, max_bytes, options, credential)
    if monitored:
        zsocket.get_monitor_socket(monitored)
    return _connect(zsocket, address)


def subscriber(
    context: zmq.Context[zmq.Socket[bytes]],
    address: str,
    max_bytes: int,
    credential: Credential | None = None,
    *,
    ipv6: bool = False,
) -> zmq.Socket[bytes]:
    """Return an actor's socket for broadcasts; `ipv6` as for `dealer`. CONFLATE keeps the newest frame only."""
    options: _Options = {zmq.CONFLATE: 1, zmq.SUBSCRIBE: b"", zmq.IPV6: int(ipv6), **_CONNECTING}
    return _connect(_socket(context, zmq.SUB, max_bytes, options, credential), address)


def _socket(
    context: zmq.Context[zmq.Socket[bytes]],
    kind: int,
    max_bytes: int,
    options: _Options,
    credential: Credential | None = None,
) -> zmq.Socket[bytes]:
    zsocket = context.socket(kind)
    zsocket.setsockopt(zmq.MAXMSGSIZE, max_bytes)
    for option, value in {**_COMMON, **options}.items():
        zsocket.setsockopt(option, value)
    if credential is not None:
        zsocket.setsockopt(zmq.CURVE_SERVERKEY, credential.learner_key.encode())
        zsocket.setsockopt(zmq.CURVE_PUBLICKEY, credential.pair.public.encode())
        zsocket.setsockopt(zmq.CURVE_SECRETKEY, credential.pair.secret.encode())
    return zsocket


def _connect(zsocket: zmq.Socket[bytes], address: str) -> zmq.Socket[bytes]:
    try:
        zsocket.connect(address)
    except zmq.ZMQError:
        zsocket.close()
        raise ConfigurationError(f"cannot connect to {address}: it must name one host and one port") from None
    return zsocket


def events(monitor: zmq.Socket[bytes]) -> Iterator[int]:
    """Yield the events (`zmq.EVENT_...`) that a monitor socket has received."""
    for event, _ in events_with_values(monitor):
        yield event


def events_with_values(monitor: zmq.Socket[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the events with their values; the value of a connection's event is its descriptor."""
    while monitor.poll(0):  # 4 us without events; a non-blocking receive would raise, which takes 7
        yield _EVENT.unpack(monitor.recv_multipart()[0])


def reserve(address: Address, option: str = "--bind") -> socket.socket:
    """Return a listening TCP socket for `bind` to give to ZeroMQ; peers that connect earlier wait.

    The learner takes its ports first, since loading torch and building the model take seconds. option: the
    command-line option with which the operator can choose another address.
    Raises UnavailableError for a port in use, ConfigurationError for an address that is not this machine's.
    """
    if address.port > LAST_PORT:
        raise ConfigurationError(f"cannot listen on {address}: the last port is {LAST_PORT}")
    host = "" if address.host == "*" else address.host.strip("[]")
    where: tuple[Any, ...] = host, address.port
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if "%" in host:  # an address of one interface, whose number must stand beside it
            where = socket.getaddrinfo(host, address.port, family, socket.SOCK_STREAM)[0][4]
        return socket.create_server(where, family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = f"{address} is in use: stop what listens there, or choose another port with {option}"
            raise UnavailableError(why) from None
        reason = (error.strerror or str(error)).partition(" (")[0]
        raise ConfigurationError(f"cannot listen on {address}: {reason}") from None


def reserve_pair(address: Address) -> tuple[socket.socket, socket.socket]:
    """Reserve the port of `address` and the next one; port 0: any two neighbouring ports. Raises as `reserve`."""
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
    """Return the pair that the parent process reserved; `descriptors` are their file descriptors, as "5,6".

    Raises ConfigurationError for anything but two listening sockets.
    """
    try:
        numbers = [int(one) for one in descriptors.split(",")]
        first, second = [socket.socket(fileno=number) for number in numbers[:2]]
        listening = socket.SOL_SOCKET, socket.SO_ACCEPTCONN
        ports = [one.getsockname()[1] for one in (first, second) if one.getsockopt(*listening)]
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--listeners {descriptors}: no two descriptors of sockets: {error}") from None
    if len(ports) != 2 or ports[1] != ports[0] + 1:
        raise ConfigurationError(f"--listeners {descriptors}: must listen on two neighbouring ports")
    return first, second


def address_of(listener: socket.socket) -> Address:
    """Return where a reserved port listens."""
    host, port = listener.getsockname()[:2]
    return Address(f"[{host}]" if ":" in host else host, port)


def bind(zsocket: zmq.Socket[bytes], listener: socket.socket) -> None:
    """Give a reserved port to a ROUTER or PUB, which then owns it."""
    where = address_of(listener)
    zsocket.setsockopt(zmq.USE_FD, listener.detach())
    zsocket.bind(str(where))
