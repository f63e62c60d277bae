"""On real loopback TCP: the guard sees who connects, counts their bytes and ends single connections."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import zmq

from common.host.addresses import Address
from common.host.security.keys import KeyPair
from common.wire import sockets, tcp
from learner import guard
from learner.connections import SUBSCRIPTION_BYTES, Bounds, Connection
from learner.guard import Guard
from tests.helpers.stranger import Stranger, frame
from tests.helpers.waiting import until

Context = zmq.Context[zmq.Socket[bytes]]
MIB = 2**20
BOUNDS = Bounds(message_bytes=10_000, unread_bytes=100_000, connections=100)


class House:
    """Both ports, guarded."""

    def __init__(self, context: Context, bounds: Bounds = BOUNDS) -> None:
        self.guard = Guard(bounds, repeat_seconds=60.0, with_keys=False)
        pair = sockets.reserve_pair(Address("127.0.0.1", 0))
        self.port = pair[0].getsockname()[1]
        self.router, self.publisher = sockets.router(context, 10_000), sockets.publisher(context)
        self.guard.watch(self.router, "control", pair[0].dup())
        self.guard.watch(self.publisher, "weights", pair[1].dup())
        sockets.bind(self.router, pair[0])
        sockets.bind(self.publisher, pair[1])
        self.guard.start()

    def hear(self) -> Connection:
        """The connection of the next message."""
        assert self.router.poll(10_000)
        frames = self.router.recv_multipart(copy=False)
        found = self.guard.connection(int(frames[-1].get("__fd")))
        assert found is not None
        return found


@pytest.fixture
def house(context: Context) -> Iterator[House]:
    one = House(context)
    yield one
    one.guard.close()


def test_a_message_leads_to_its_connection_alone_and_that_can_be_ended(house: House) -> None:
    with Stranger(house.port) as one, Stranger(house.port) as other:
        one.socket.sendall(frame(b"one"))
        first = house.hear()
        other.socket.sendall(frame(b"other"))
        second = house.hear()
        assert first is not second
        assert (first.peer, first.port) == (one.socket.getsockname(), "control")
        assert house.guard.end("was asked to go", lambda connection: connection is first) == 1
        until(lambda: one.closed)
        until(lambda: first.gone < time.monotonic() + 1)
        other.socket.sendall(frame(b"still here"))
        assert house.hear() is second
        assert house.guard.end("", lambda connection: connection is first) == 0


def test_bytes_are_counted_both_ways(house: House) -> None:
    with Stranger(house.port) as one:
        one.socket.sendall(frame(b"hello"))
        connection = house.hear()
        before = tcp.counted(connection.descriptor)[0]
        until(lambda: connection.received == before)
        acknowledged = connection.acknowledged
        one.socket.sendall(frame(bytes(200)) * 10)
        until(lambda: connection.received == before + 2020)
        assert acknowledged > 0
        assert connection.moved > connection.since


@pytest.mark.parametrize("more", [False, True])
def test_what_nobody_reads_is_ended_and_the_others_stay(
    house: House, more: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with Stranger(house.port) as honest, Stranger(house.port) as flood:
        flood.pour(frame(bytes(200), more=more) * 100, 50)
        until(lambda: flood.closed)
        honest.socket.sendall(frame(b"hello"))
        assert not honest.closed
    until(lambda: "a connection from 127.0.0.1 was ended: it has " in caplog.text)


def test_a_subscriber_that_says_more_than_its_subscription_is_ended(house: House) -> None:
    with Stranger(house.port + 1, "SUB") as honest, Stranger(house.port + 1, "SUB") as other:
        honest.socket.sendall(frame(b"\1"))
        other.pour(b"".join(frame(b"\1topic %d" % number) for number in range(SUBSCRIPTION_BYTES // 8)), 1)
        until(lambda: other.closed)
        assert not honest.closed


def test_a_banned_address_is_not_let_in(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        house.guard._keeper, "refuses", lambda now, port, address: "is banned" if "127" in address else ""
    )
    with Stranger(house.port, handshake=False) as one:
        until(lambda: one.closed)


def test_beyond_the_room_connections_are_ended(context: Context) -> None:
    house = House(context, Bounds(message_bytes=1000, unread_bytes=1000, connections=10))
    some = [Stranger(house.port, handshake=False) for _ in range(30)]
    try:
        until(lambda: sum(one.closed for one in some) >= 20)
        assert sum(one.closed for one in some) <= 25
    finally:
        for one in some:
            one.reset()
        house.guard.close()


def test_an_error_in_the_thread_is_logged_once_and_it_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    look, failed = house.guard._look, 0

    def fails(now: float, memory: int) -> None:
        nonlocal failed
        failed += 1
        if failed <= 3:
            raise OSError(24, "Too many open files")
        look(now, memory)

    monkeypatch.setattr(house.guard, "_look", fails)
    until(lambda: failed > 3)
    with Stranger(house.port) as flood:
        flood.pour(frame(bytes(200)) * 100, 50)
        until(lambda: flood.closed)
    said = [record for record in caplog.records if "the guard of the ports failed" in record.getMessage()]
    assert len(said) == 1
    assert "Too many open files" in said[0].getMessage()
    assert said[0].exc_info


def test_strangers_with_ever_new_addresses_do_not_fill_the_log(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has an IPv6 network has 2**64 of them."""
    for number in range(10 * guard.LINES_AT_ONCE):
        house.guard._say(f"2001:db8::{number:x} control", "a connection was ended")
    assert guard.LINES_AT_ONCE <= len(caplog.records) < 2 * guard.LINES_AT_ONCE


def test_a_peer_without_a_key_is_told_of_once(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard(BOUNDS, repeat_seconds=60.0, with_keys=True)
    router = sockets.router(context, 1000)
    pair = KeyPair.generate("learner")
    router.setsockopt(zmq.CURVE_SERVER, 1)
    router.setsockopt(zmq.CURVE_SECRETKEY, pair.secret.encode())
    listener = sockets.reserve(Address("127.0.0.1", 0))
    guard.watch(router, "control", listener.dup())
    port = listener.getsockname()[1]
    sockets.bind(router, listener)
    guard.start()
    for _ in range(3):
        sockets.dealer(context, f"tcp://127.0.0.1:{port}", 1000)
    until(lambda: caplog.records)
    guard.close()
    assert [record.getMessage() for record in caplog.records] == [
        "a peer without a key, or with another learner's, was refused"
    ]


@pytest.mark.parametrize("between", [0.0, 1000.0])
def test_memory_that_a_flood_has_left_is_given_back_before_growth_is_counted_from_there(
    between: float, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each flood could take as much more as the one before left; nor is it counted while it is not."""
    monkeypatch.setattr(guard, "RELEASE_SECONDS", between)
    resident, released = 100 * MIB, 0
    monkeypatch.setattr(guard, "resident_bytes", lambda: resident)
    monkeypatch.setattr(guard, "release_memory", lambda: release())

    def release() -> None:
        nonlocal resident, released
        resident, released = min(resident, 101 * MIB), released + 1

    def read_all() -> int:
        house.guard.all_read()
        until(lambda: not house.guard._all_read)
        with house.guard._lock:  # it has looked
            return int(house.guard._keeper.calm)

    assert read_all() == 100 * MIB
    for _ in range(3):
        resident += 40 * MIB
        assert read_all() == 101 * MIB
    assert released == (1 if between else 3)


def test_many_connections_are_counted_in_turns_and_at_once_if_memory_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SCANNED_AT_ONCE", 4)
    watch = Guard(Bounds(message_bytes=1000, unread_bytes=1000, connections=100), 60.0, with_keys=False)
    some = [Connection(number, ("127.0.0.1", number), "control", since=0.0) for number in range(10)]
    watch._connections.update({("control", one.descriptor): one for one in some})
    counted: list[int] = []
    monkeypatch.setattr(watch, "_count", lambda _, them: counted.extend(one.descriptor for one in them))
    assert [watch._scan(0.0, guard.SCAN_BYTES), watch._scan(0.1, 0), watch._scan(0.2, 0)] == [False, False, True]
    assert counted == list(range(10))
    assert not watch._scan(0.3, 0), "the next one is not due"
    some[5].gone = 0.5
    assert [watch._scan(0.6, 0), watch._scan(0.7, 0)] == [False, False]
    assert counted[10:] == [0, 1, 2, 3, 4, 6, 7], "a descriptor may be another's by now"
    counted.clear()
    assert watch._scan(0.8, 3 * guard.SCAN_BYTES)
    assert counted == list(range(10))
