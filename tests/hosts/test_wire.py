"""A cable with delay, rate, loss and cut: the rules with a clock of the test's, then a real one."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import pytest

from tests.helpers.waiting import until
from tests.hosts import network as networks
from tests.hosts.network import Network, network
from tests.hosts.wire import QUEUE, Cable, Quality

pytestmark = pytest.mark.hosts
PACKET = bytes(1250)  # 10,000 bits


def cable(**quality: object) -> Cable:
    one = Cable(seed=1)
    one.quality = Quality(**quality)  # type: ignore[arg-type]
    return one


def arrivals(one: Cable) -> list[tuple[float, int]]:
    """Everything that is under way: when and on which side it comes out."""
    found = []
    while (due := one.due) is not None:
        found += [(due, side) for side, _ in one.take(due)]
    return found


def test_packets_come_out_of_the_other_side_after_the_delay() -> None:
    one = cable(delay_seconds=0.5)
    one.put(1.0, 0, b"there")
    one.put(1.1, 1, b"back")
    assert list(one.take(1.49)) == []
    assert list(one.take(1.5)) == [(1, b"there")]
    assert list(one.take(1.6)) == [(0, b"back")]


def test_the_rate_is_of_each_way() -> None:
    one = cable(mbit=1.0, delay_seconds=1.0)
    for _ in range(3):
        one.put(0.0, 0, PACKET)
    one.put(0.0, 1, PACKET)
    assert [(round(due, 3), side) for due, side in arrivals(one)] == [(1.01, 1), (1.01, 0), (1.02, 1), (1.03, 1)]


def test_a_shorter_delay_does_not_overtake() -> None:
    one = cable(delay_seconds=1.0)
    one.put(0.0, 0, b"first")
    one.quality = Quality()
    one.put(0.1, 0, b"second")
    assert list(one.take(0.9)) == []
    assert [packet for _, packet in one.take(1.0)] == [b"first", b"second"]


def test_a_full_queue_drops() -> None:
    one = cable(delay_seconds=1.0)
    for _ in range(QUEUE + 7):
        one.put(0.0, 0, PACKET)
    assert len(arrivals(one)) == QUEUE
    assert one.counts == {"dropped": 7, "carried": QUEUE}


def test_loss_is_the_seeds() -> None:
    def lost(seed: int) -> list[int]:
        one = Cable(seed)
        one.quality = Quality(loss=0.1)
        for number in range(QUEUE):
            one.put(float(number), 0, bytes([number]))
        return sorted(set(range(QUEUE)) - {packet[0] for _, packet in one.take(float(QUEUE))})

    assert lost(1) == lost(1) != lost(2)
    assert 5 < len(lost(1)) < 60


def test_a_cut_loses_what_is_under_way_of_the_way_that_is_cut() -> None:
    one = cable(delay_seconds=1.0)
    one.put(0.0, 0, b"out")
    one.put(0.0, 1, b"back")
    one.quality = Quality(cut=(True, False))
    one.put(0.5, 0, b"later")
    assert list(one.take(2.0)) == [(0, b"back")]
    assert one.counts == {"cut": 2, "carried": 1}


def test_it_snaps_behind_a_large_packet_from_the_first_end() -> None:
    one = cable(snap=100)
    for side, packet in ((1, PACKET), (0, b"small"), (0, PACKET), (0, b"late"), (1, b"back")):
        one.put(0.0, side, packet)
    assert list(one.take(1.0)) == [(0, PACKET), (1, b"small"), (1, PACKET)]
    assert one.quality.cut == (True, True)


@pytest.fixture(scope="module")
def two() -> Iterator[Network]:
    if why := networks.lacking_wires():
        pytest.skip(why)
    with network("h1", "h2") as one:
        yield one


def pair(two: Network) -> tuple[socket.socket, socket.socket]:
    """Datagram sockets on the hosts, connected to one another."""
    both = []
    for host in two.hosts:
        with host.inside():
            both.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        both[-1].settimeout(0.1)
        both[-1].bind((host.address, 9))
    both[0].connect((two.hosts[1].address, 9))
    both[1].connect((two.hosts[0].address, 9))
    return both[0], both[1]


def heard(one: socket.socket, said: bytes) -> bool:
    """Whether this comes next, but for what was sent before and was late."""
    try:
        while one.recv(10) != said:
            pass
    except TimeoutError:
        return False
    return True


def exchange(two: tuple[socket.socket, socket.socket]) -> float:
    """Seconds there and back; what is lost, or late, is sent again."""
    near, far = two

    def gone(one: socket.socket, other: socket.socket) -> bool:
        said = os.urandom(8)
        one.send(said)
        return heard(other, said)

    begun = time.monotonic()
    until(lambda: gone(near, far), "a packet")
    until(lambda: gone(far, near), "a packet back")
    return time.monotonic() - begun


def test_a_real_cable_is_slow_and_can_be_cut_one_way_and_mended(two: Network) -> None:
    near, far = pair(two)
    with near, far, two.wire(two.hosts[1]) as wire:
        exchange((near, far))
        wire.set(delay_seconds=0.05)
        assert exchange((near, far)) >= 0.1
        wire.cut(out=True, back=False)  # of the second host, whose cable it is
        before = wire.count("carried")
        near.send(b"in")
        until(lambda: heard(far, b"in"), "what comes in")
        far.send(b"out")
        until(lambda: wire.count("cut"), "something lost")
        wire.mend()
        exchange((near, far))
        assert wire.count("carried") > before


def test_a_cable_that_is_a_plain_one_again_carries(two: Network) -> None:
    near, far = pair(two)
    with near, far:
        exchange((near, far))
        with two.wire(two.hosts[1]):
            exchange((near, far))
        exchange((near, far))
