"""Both ports on loopback TCP, with peers that are honest and others."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from common.host.addresses import Address
from common.host.security import allowed
from common.host.security.access import LEARNER_PAIR
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair
from common.wire import sockets
from common.wire.frames import unpack
from common.wire.messages import Heartbeat
from learner.authentication import LearnerKeys
from learner.connections import Progress
from learner.effects import Disconnect, Publish, Send
from learner.ports import LONG_BROADCAST_BYTES, SHARED_BYTES, Ports
from tests.helpers.stranger import Stranger, frame
from tests.helpers.waiting import until

Context = zmq.Context[zmq.Socket[bytes]]
Socket = zmq.Socket[bytes]
MAX_BYTES = 200_000
OWN = KeyPair.generate("learner")
LABS = [KeyPair.generate(f"lab{number}") for number in range(2)]


class House:
    """The ports, and peers of their own making."""

    def __init__(self, context: Context, keys: LearnerKeys | None, broadcast_bytes: int = 0) -> None:
        pair = sockets.reserve_pair(Address("127.0.0.1", 0))
        self.context, self.port, self.keys = context, pair[0].getsockname()[1], keys
        self.ports = Ports(
            pair,
            keys,
            max_bytes=MAX_BYTES,
            unread_messages=2,
            broadcast_bytes=broadcast_bytes,
            repeat_seconds=60.0,
        )
        self.revoked: set[str] = set()
        for listener in pair:
            listener.close()

    def credential(self, pair: KeyPair | None) -> Credential | None:
        return pair and Credential(Address("127.0.0.1", self.port), OWN.public, pair)

    def dealer(self, pair: KeyPair | None = None) -> Socket:
        return sockets.dealer(self.context, f"tcp://127.0.0.1:{self.port}", MAX_BYTES, self.credential(pair))

    def subscriber(self, pair: KeyPair | None = None) -> Socket:
        one = sockets.subscriber(self.context, f"tcp://127.0.0.1:{self.port + 1}", MAX_BYTES, self.credential(pair))
        self.until(lambda: self.hears(one))
        return one

    def hears(self, subscriber: Socket) -> bool:
        self.ports.publish(Publish(b"weights"))
        return bool(subscriber.poll(20)) and subscriber.recv(zmq.NOBLOCK) == b"weights"

    def serve(self) -> list[tuple[bytes, list[bytes], str]]:
        """What came."""
        self.revoked |= self.ports.admit(time.monotonic())
        return [
            (peer, [bytes(frame) for frame in frames], key) for peer, frames, key, _ in self.ports.receive(math.inf)
        ]

    def until(self, happens: Callable[[], object]) -> None:
        def look() -> object:
            self.serve()
            return happens()

        until(look)

    def say(self, dealer: Socket, content: bytes = b"hello") -> tuple[bytes, str]:
        """The routing id and the key under which it is heard."""
        heard: list[tuple[bytes, list[bytes], str]] = []
        end = time.monotonic() + 20.0
        while not heard:
            assert time.monotonic() < end, "it was not heard"
            if dealer.poll(0, zmq.POLLOUT) and not heard:
                dealer.send(content, zmq.NOBLOCK)
            time.sleep(0.01)
            heard = [one for one in self.serve() if one[1] == [content]]
        return heard[0][0], heard[0][2]


@pytest.fixture
def house(context: Context) -> Iterator[House]:
    one = House(context, None)
    yield one
    one.ports.close()


@pytest.fixture
def guarded(context: Context, tmp_path: Path) -> Iterator[House]:
    """With keys."""
    OWN.write(tmp_path / LEARNER_PAIR)
    for lab in LABS:
        allowed.allow(tmp_path / "allowed", lab.public, lab.name)
    one = House(context, LearnerKeys(OWN, tmp_path / "allowed"))
    yield one
    one.ports.close()


def test_there_and_back_and_to_all(house: House) -> None:
    peer = house.dealer()
    routing_id, key = house.say(peer)
    assert key == ""
    for body in (None, b"short", bytes(SHARED_BYTES)):
        house.ports.send(Send(routing_id, Heartbeat(), body))
        assert peer.poll(10_000)
        header, *rest = peer.recv_multipart()
        assert unpack(header) == Heartbeat()
        assert rest == ([] if body is None else [body])
    house.ports.send(Send(b"nobody", Heartbeat()))
    house.subscriber()


def test_a_peer_that_reads_at_once_misses_nothing_however_soon_the_next_follows(house: House) -> None:
    peer = house.dealer()
    routing_id, _ = house.say(peer)
    for _ in range(2000):
        house.ports.send(Send(routing_id, Heartbeat()))
        assert peer.poll(10_000)
        peer.recv()


@pytest.mark.parametrize(("broadcast_bytes", "threads"), [(LONG_BROADCAST_BYTES, 1), (LONG_BROADCAST_BYTES + 1, 2)])
def test_long_broadcasts_have_a_thread_of_their_own(context: Context, broadcast_bytes: int, threads: int) -> None:
    house = House(context, None, broadcast_bytes)
    try:
        assert house.ports._context.get(zmq.IO_THREADS) == threads
        house.say(house.dealer())
        house.subscriber()
    finally:
        house.ports.close()


@pytest.mark.parametrize("ports", ["house", "guarded"])
@pytest.mark.parametrize(
    "said",
    [b"\1\0" + b"\6\0hello", b"\xff" + bytes(8) + b"\x7f\1\5" + b"\0\0" + b"\0\5hello"],
    ids=["1.0", "2.0"],
)
def test_messages_of_older_zmtp_are_not_heard(ports: str, said: bytes, request: pytest.FixtureRequest) -> None:
    """libzmq delivers them without a word of where they come from."""
    one: House = request.getfixturevalue(ports)
    pair = LABS[0] if one.keys else None
    with Stranger(one.port, handshake=False) as stranger:
        stranger.socket.sendall(said)
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            assert one.serve() == []
            time.sleep(0.01)
        one.say(one.dealer(pair))


def test_a_long_body_to_many_peers_is_in_memory_once(house: House) -> None:
    import gc
    import sys

    body = bytes(SHARED_BYTES)
    peers = [house.dealer() for _ in range(5)]
    routing_ids = [house.say(peer)[0] for peer in peers]
    before = sys.getrefcount(body)
    for routing_id in routing_ids:
        house.ports.send(Send(routing_id, Heartbeat(), body))
    for peer in peers:
        assert peer.poll(10_000)
        assert peer.recv_multipart()[1] == body

    def released() -> bool:
        gc.collect()
        return sys.getrefcount(body) == before

    house.until(released)


def test_a_peer_is_disconnected_and_comes_back(house: House) -> None:
    one, other = house.dealer(), house.dealer()
    first, _ = house.say(one)
    second, _ = house.say(other)
    closed = house.ports._connections[first]
    house.ports.send(Send(first, Heartbeat()))
    house.ports.disconnect(Disconnect(first))
    house.ports.disconnect(Disconnect(b"nobody"))
    assert one.poll(10_000), "a last message leaves"
    with contextlib.suppress(zmq.Again):  # its connection may be closed already
        one.send(b"after it", zmq.NOBLOCK)
    house.until(lambda: closed.gone < math.inf)
    assert house.say(one)[0] not in (first, second)
    assert house.say(other)[0] == second


@pytest.mark.parametrize("noticed", [True, False])
def test_an_id_that_nobody_has_any_more_is_not_taken_by_another_key(
    guarded: House, monkeypatch: pytest.MonkeyPatch, noticed: bool
) -> None:
    """Whether or not the guard has noticed that its connection is closed."""
    first = guarded.dealer(LABS[0])
    routing_id, _ = guarded.say(first)
    connection = guarded.ports._connections[routing_id]
    first.close()
    guarded.until(lambda: connection.gone < math.inf)
    connection.gone = connection.gone if noticed else math.inf
    before, heard = connection.delivered, []
    monkeypatch.setitem(sockets._CONNECTING, zmq.ROUTING_ID, routing_id)
    end = time.monotonic() + 60.0
    while connection.delivered == before:  # libzmq may not have forgotten the first yet, and then refuses the other
        assert time.monotonic() < end, "it was not read"
        with guarded.dealer(LABS[1]) as other:
            guarded.until(lambda: other.poll(0, zmq.POLLOUT))
            other.send(b"as the first", zmq.NOBLOCK)
            for _ in range(100):
                time.sleep(0.01)
                heard += guarded.serve()
                if connection.delivered != before:
                    break
    assert heard == []


def test_messages_of_an_ended_connection_hold_nobody_up(house: House) -> None:
    peer = house.dealer()
    routing_id, _ = house.say(peer)
    house.ports._connections[routing_id].closing = True
    for _ in range(100):
        peer.send(b"noise")
    for _ in range(100):
        assert house.ports.pollable[0].poll(10_000)
        assert list(house.ports.receive(0.0)) == [], "time is up after each of them"
    assert list(house.ports.receive(math.inf)) == [] and house.ports.all_read


def test_bytes_under_way_are_progress(house: House) -> None:
    with Stranger(house.port) as peer:
        peer.socket.sendall(frame(b"hello"))
        heard: list[bytes] = []
        until(lambda: heard.extend(one for one, *_ in house.serve()) or heard)
        time.sleep(1.2)
        house.ports.progress()
        time.sleep(1.2)
        assert house.ports.progress() == {}
        peer.socket.sendall(frame(bytes(100_000))[:50_000])
        moved: dict[bytes, Progress] = {}
        until(lambda: moved.update(house.ports.progress()) or moved)
        assert list(moved) == heard
        assert not list(house.ports.receive(math.inf)), "it is half a message"


def test_bytes_that_are_counted_late_are_progress(house: House) -> None:
    """The guard looked at its clock, then the daemon asked, then the guard wrote down what it had counted."""
    routing_id, _ = house.say(house.dealer())
    connection = house.ports._connections[routing_id]
    looked = time.monotonic()
    house.ports.progress()
    connection.count(looked, connection.received + 1, connection.acknowledged)
    assert list(house.ports.progress()) == [routing_id]


def test_much_that_is_read_is_no_flood_with_keys_or_without(house: House, guarded: House) -> None:
    """Ten times the bound, of every length of frame headers."""
    for one, pair in ((house, None), (guarded, LABS[0])):
        peer = one.dealer(pair)
        routing_id, _ = one.say(peer)
        connection = one.ports._connections[routing_id]
        sizes = (0, 1, 200, 222, 223, 255, 256, 50_000)
        for sent in range(sum(sizes), 10 * 2 * MAX_BYTES, sum(sizes)):
            for size in sizes:
                peer.send_multipart([b"x", bytes(size)])
            one.until(lambda sent=sent, connection=connection: connection.delivered >= sent)
        assert one.say(peer, b"last")[0] == routing_id
        one.until(lambda connection=connection: abs(connection.received - connection.delivered) < 1000)


def test_a_revoked_key_loses_its_connections_and_others_are_back_in_a_moment(guarded: House) -> None:
    one, other = (guarded.dealer(pair) for pair in LABS)
    assert [guarded.say(peer)[1] for peer in (one, other)] == ["lab0", "lab1"]
    second, _ = guarded.say(other)
    news, others_news = (guarded.subscriber(pair) for pair in LABS)
    assert guarded.keys is not None
    allowed.revoke(guarded.keys.allowed, "lab0")
    guarded.until(lambda: guarded.revoked)
    assert guarded.revoked == {"lab0"}
    guarded.until(lambda: not one.poll(0, zmq.POLLOUT))
    guarded.until(lambda: guarded.hears(others_news))
    assert guarded.say(other) == (second, "lab1"), "whose connection for messages stayed"
    while news.poll(100):
        news.recv(zmq.NOBLOCK)  # from before
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        guarded.serve()
        assert not guarded.hears(news) and not one.poll(0, zmq.POLLOUT)


@pytest.mark.slow
def test_a_banned_key_is_let_in_again_after_its_time(guarded: House) -> None:
    one = guarded.dealer(LABS[0])
    routing_id, _ = guarded.say(one)
    guarded.ports.disconnect(Disconnect(routing_id, ban_seconds=1.0))
    begun = time.monotonic()
    guarded.until(lambda: not one.poll(0, zmq.POLLOUT))
    again, key = guarded.say(one)
    assert (again != routing_id, key) == (True, "lab0")
    assert time.monotonic() - begun >= 0.9
