"""On real loopback TCP: what the options promise is what ZeroMQ does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import zmq

from common.errors import ConfigurationError, UnavailableError
from common.host.addresses import Address
from common.wire import sockets
from tests.helpers.stranger import Stranger, frame
from tests.helpers.waiting import until

pytestmark = pytest.mark.slow

Context = zmq.Context[zmq.Socket[bytes]]
Socket = zmq.Socket[bytes]
LOOPBACK = Address("127.0.0.1", 0)
MAX_BYTES = 1000
PATIENCE_MS = 10_000
ROOT = Path(__file__).parents[3]


@pytest.fixture
def router(context: Context) -> Socket:
    one = sockets.router(context, MAX_BYTES)
    sockets.bind(one, sockets.reserve(LOOPBACK))
    return one


@pytest.fixture
def publisher(context: Context) -> Socket:
    one = sockets.publisher(context)
    sockets.bind(one, sockets.reserve(LOOPBACK))
    return one


def endpoint(zsocket: Socket) -> str:
    return zsocket.getsockopt_string(zmq.LAST_ENDPOINT)


def dealer(context: Context, router: Socket) -> tuple[Socket, bytes]:
    """Connected, and known to the router by the routing id that it gave."""
    one = sockets.dealer(context, endpoint(router), MAX_BYTES)
    assert one.poll(PATIENCE_MS, zmq.POLLOUT), "no connection"
    one.send(b"hello", zmq.NOBLOCK)
    routing_id, said = receive(router)
    assert said == b"hello"
    return one, routing_id


def receive(zsocket: Socket) -> list[bytes]:
    assert zsocket.poll(PATIENCE_MS), "nothing came"
    return zsocket.recv_multipart(zmq.NOBLOCK)


def descriptors() -> int:
    return psutil.Process().num_fds()


def reachable(router: Socket, identity: bytes) -> bool:
    try:
        router.send_multipart([identity, b"anyone?"], zmq.NOBLOCK)
    except zmq.ZMQError as error:
        assert error.errno == zmq.EHOSTUNREACH
        return False
    return True


# -- ports --------------------------------------------------------------------------------------------------------


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    with sockets.reserve(LOOPBACK) as listener:
        yield listener


def test_a_pair_goes_to_another_process_by_its_descriptors() -> None:
    pair = sockets.reserve_pair(LOOPBACK)
    inherited = sockets.inherit(",".join(str(os.dup(listener.fileno())) for listener in pair))
    assert [one.getsockname() for one in inherited] == [one.getsockname() for one in pair]
    for listener in (*pair, *inherited):
        listener.close()


@pytest.mark.parametrize("descriptors", ["", "x,y", "100000,100001"])
def test_descriptors_of_no_sockets_are_refused(descriptors: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--listeners .*: no two descriptors of sockets"):
        sockets.inherit(descriptors)


def test_a_port_in_use_is_to_be_tried_later(taken: socket.socket) -> None:
    address = LOOPBACK.with_port(taken.getsockname()[1])
    with pytest.raises(UnavailableError, match=f"tcp://127.0.0.1:{address.port} is in use: .*--bind"):
        sockets.reserve(address)


@pytest.mark.parametrize("host", ["203.0.113.1", "no-such-host.invalid"])
def test_an_address_of_another_machine(host: str) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot listen on tcp://{host}:6000: [A-Z][^()]+$"):
        sockets.reserve(Address(host, 6000))


def test_a_pair_is_two_neighbours() -> None:
    first, second = sockets.reserve_pair(LOOPBACK)
    with first, second:
        assert second.getsockname()[1] == first.getsockname()[1] + 1


def test_a_pair_whose_second_port_is_in_use() -> None:
    first, taken = sockets.reserve_pair(LOOPBACK)
    first.close()
    with taken:
        port = taken.getsockname()[1]
        with pytest.raises(UnavailableError, match=f"127.0.0.1:{port} is in use"):
            sockets.reserve_pair(LOOPBACK.with_port(port - 1))


def test_any_pair_is_looked_for_until_one_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def reserve(address: Address) -> socket.socket:
        tried.append(address.port)
        if address.port and len(tried) < 6:
            raise UnavailableError("in use")
        return socket.create_server(("127.0.0.1", 0))

    monkeypatch.setattr(sockets, "reserve", reserve)
    for listener in sockets.reserve_pair(LOOPBACK):
        listener.close()
    assert [bool(port) for port in tried] == [False, True] * 3


def test_no_pair_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def reserve(address: Address) -> socket.socket:
        if address.port:
            raise UnavailableError("in use")
        return socket.create_server(("127.0.0.1", 0))

    monkeypatch.setattr(sockets, "reserve", reserve)
    with pytest.raises(UnavailableError, match="no two neighbouring ports are free on "):
        sockets.reserve_pair(LOOPBACK)


def test_the_last_port_has_no_neighbour() -> None:
    with pytest.raises((ConfigurationError, UnavailableError), match=r"the last port is 65535|65535 is in use"):
        sockets.reserve_pair(LOOPBACK.with_port(65535))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "*", "0.0.0.0", "[::1]"])
def test_a_reserved_port_serves_those_who_came_before_it_was_bound(context: Context, host: str) -> None:
    if host == "[::1]" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    listener = sockets.reserve(Address(host, 0))
    port = listener.getsockname()[1]
    where = Address(host if host == "[::1]" else "127.0.0.1", port)
    peer = sockets.dealer(context, str(where), MAX_BYTES, ipv6=where.is_ipv6)
    router = sockets.router(context, MAX_BYTES)
    sockets.bind(router, listener)
    assert peer.poll(PATIENCE_MS, zmq.POLLOUT)
    peer.send(b"hello", zmq.NOBLOCK)
    assert receive(router)[1] == b"hello"
    assert endpoint(router).endswith(f":{port}")


def test_an_address_that_only_one_interface_has(context: Context) -> None:
    every = (one.address for interface in psutil.net_if_addrs().values() for one in interface)
    host = next((f"[{one}]" for one in every if one.startswith("fe80:") and "%" in one), None)
    if host is None:
        pytest.skip("no link-local address here")
    first, second = sockets.reserve_pair(Address(host, 0))
    second.close()
    peer = sockets.dealer(context, str(Address(host, first.getsockname()[1])), MAX_BYTES, ipv6=True)
    router = sockets.router(context, MAX_BYTES)
    sockets.bind(router, first)
    assert peer.poll(PATIENCE_MS, zmq.POLLOUT)


def test_where_a_listener_listens_is_said_so_that_it_can_be_typed() -> None:
    hosts = {"127.0.0.1": "127.0.0.1", "*": "0.0.0.0"} | ({"[::1]": "[::1]"} if socket.has_dualstack_ipv6() else {})
    for given, host in hosts.items():
        with sockets.reserve(Address(given, 0)) as listener:
            where = sockets.address_of(listener)
            assert where == Address.parse(f"tcp://{host}:{listener.getsockname()[1]}") == Address.parse(str(where))


@pytest.mark.parametrize("address", ["tcp://*:5555", "tcp://lab7:*", "tcp://a,b:5555"])
@pytest.mark.parametrize("kind", ["dealer", "subscriber"])
def test_an_address_nobody_can_connect_to(context: Context, address: str, kind: str) -> None:
    with pytest.raises(ConfigurationError, match="must name one host and one port"):
        if kind == "dealer":
            sockets.dealer(context, address, MAX_BYTES)
        else:
            sockets.subscriber(context, address, MAX_BYTES)


# -- messages -----------------------------------------------------------------------------------------------------


def test_there_and_back(context: Context, router: Socket) -> None:
    peer, routing_id = dealer(context, router)
    peer.send_multipart([b"header", b"body"], zmq.NOBLOCK)
    assert receive(router) == [routing_id, b"header", b"body"]
    router.send_multipart([routing_id, b"header", b"body"], zmq.NOBLOCK)
    assert receive(peer) == [b"header", b"body"]


def test_an_unknown_peer_is_an_error_not_a_loss(context: Context, router: Socket) -> None:
    assert not reachable(router, b"nobody")
    peer, routing_id = dealer(context, router)
    assert reachable(router, routing_id)
    peer.close(linger=0)
    until(lambda: not reachable(router, routing_id))


def test_nothing_is_queued_for_a_learner_that_is_not_there(context: Context) -> None:
    with sockets.reserve(LOOPBACK) as listener:
        port = listener.getsockname()[1]
    peer = sockets.dealer(context, f"tcp://127.0.0.1:{port}", MAX_BYTES)
    with pytest.raises(zmq.Again):
        peer.send(b"hello", zmq.NOBLOCK)


def test_a_learner_that_went_and_came_back_is_found_again(context: Context, router: Socket) -> None:
    peer, _ = dealer(context, router)
    address = Address.parse(endpoint(router))
    router.close(linger=0)

    def gone() -> bool:
        try:
            peer.send(b"anyone?", zmq.NOBLOCK)
        except zmq.Again:
            return True
        return False

    until(gone)
    back = sockets.router(context, MAX_BYTES)
    until(lambda: _bound(back, address))
    assert peer.poll(PATIENCE_MS, zmq.POLLOUT)
    peer.send(b"hello again", zmq.NOBLOCK)
    assert receive(back)[1] == b"hello again"


def _bound(zsocket: Socket, address: Address) -> bool:
    try:
        sockets.bind(zsocket, sockets.reserve(address))
    except UnavailableError:
        return False
    return True


def test_a_message_that_is_too_large_ends_its_connection_alone(context: Context, router: Socket) -> None:
    (good, one), (bad, other) = dealer(context, router), dealer(context, router)
    good.send(bytes(MAX_BYTES), zmq.NOBLOCK)
    assert receive(router) == [one, bytes(MAX_BYTES)]
    bad.send(bytes(MAX_BYTES + 1), zmq.NOBLOCK)
    until(lambda: not reachable(router, other))
    good.send(b"still here", zmq.NOBLOCK)
    assert receive(router) == [one, b"still here"]


def test_two_connections_never_share_a_routing_id_and_leave_no_descriptor(context: Context, router: Socket) -> None:
    """Nor if they want to: who says that it is another one is not heard."""
    port = Address.parse(endpoint(router)).port
    first, second = (Stranger(port, identity=b"the same") for _ in range(2))
    for number, one in enumerate((first, second, first, second)):
        one.socket.sendall(frame(b"%d" % number))
    assert [receive(router) for _ in range(2)] == [[b"the same", b"0"], [b"the same", b"2"]]
    assert not router.poll(50)
    held = descriptors()
    first.reset()
    second.reset()
    until(lambda: descriptors() == held - 4)


def test_a_peer_that_does_not_read_holds_nobody_up(context: Context, router: Socket) -> None:
    _, asleep = dealer(context, router)
    peer, awake = dealer(context, router)
    with pytest.raises(zmq.Again):
        for _ in range(1_000_000):
            router.send_multipart([asleep, bytes(MAX_BYTES)], zmq.NOBLOCK)
    router.send_multipart([awake, b"welcome"], zmq.NOBLOCK)
    assert receive(peer) == [b"welcome"]


@pytest.mark.parametrize("keys", ["open", "keys"])
@pytest.mark.parametrize("owner", ["reading", "stalled"])
@pytest.mark.parametrize("kind", ["control", "weights"])
def test_peers_that_flood_a_learner_and_reset_their_connections_do_not_abort_it(
    kind: str, owner: str, keys: str
) -> None:
    found = subprocess.run(
        [sys.executable, "-P", "-m", "tests.helpers.flooded", kind, owner, keys],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert (found.returncode, found.stdout.strip()) == (0, "served"), found.stderr


# -- broadcast ----------------------------------------------------------------------------------------------------


def test_the_events_of_a_socket_are_told_once_and_not_waited_for(context: Context, router: Socket) -> None:
    told: list[int] = []
    with router.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_HANDSHAKE_SUCCEEDED) as monitor:
        assert list(sockets.events(monitor)) == []
        for _ in range(2):
            dealer(context, router)
        while len(told) < 4:
            assert monitor.poll(PATIENCE_MS), f"only {told}"
            told += sockets.events(monitor)
        assert list(sockets.events(monitor)) == []
        router.disable_monitor()
    assert told == [zmq.EVENT_ACCEPTED, zmq.EVENT_HANDSHAKE_SUCCEEDED] * 2


def test_a_subscriber_keeps_the_newest_alone(context: Context, publisher: Socket) -> None:
    slow = sockets.subscriber(context, endpoint(publisher), MAX_BYTES)
    until(lambda: _published(publisher, b"0", slow))
    slow.recv(zmq.NOBLOCK)  # what is polled has left the pipe; from here on `slow` is not even polled
    fast = sockets.subscriber(context, endpoint(publisher), MAX_BYTES)
    until(lambda: _published(publisher, b"0", fast))
    for number in range(1, 50):
        frame = str(number).encode()
        until(lambda: _published(publisher, frame, fast) and fast.recv(zmq.NOBLOCK) == frame)  # noqa: B023
    received = []

    def is_last() -> bool:
        received.append(receive(slow))
        return received[-1] == [b"49"]

    until(is_last)
    assert len(received) <= 3, "of fifty: the older ones were kept"


def _published(publisher: Socket, frame: bytes, subscriber: Socket) -> bool:
    publisher.send(frame, zmq.NOBLOCK)
    return bool(subscriber.poll(20))


def test_a_broadcast_to_nobody_is_no_error(publisher: Socket) -> None:
    publisher.send(b"weights", zmq.NOBLOCK)
