from __future__ import annotations

import math

import pytest

from learner.connections import (
    FORGIVEN_SECONDS,
    GREEDY_BYTES,
    LONGEST_OFFENCE_SECONDS,
    SILENT_SECONDS,
    STRANGERS_BYTES,
    SUBSCRIBERS_BESIDES,
    SUBSCRIPTION_BYTES,
    Bounds,
    Connection,
    Doorkeeper,
    Port,
)

BOUNDS = Bounds(message_bytes=1_000_000, unread_bytes=8_000_000, connections=1000)
NOW = 1000.0


def connection(port: Port = "control", address: str = "10.0.0.7", received: int = 0, **changed: object) -> Connection:
    one = Connection(1, (address, 4000), port, since=NOW, moved=NOW)
    one.received = received
    for name, value in changed.items():
        setattr(one, name, value)
    return one


def closed(keeper: Doorkeeper, *connections: Connection, now: float = NOW, memory: int = 0) -> list[int]:
    """Which are closed, by their places."""
    found = []
    for one, why in keeper.to_close(now, connections, memory):
        assert why
        assert not one.closing, "once"
        one.closing = True
        found.append(connections.index(one))
    return sorted(found)


def test_what_is_unread_or_unfinished_is_bounded() -> None:
    one = connection(received=9_000_000, delivered=1_000_000, spoke=True)
    assert closed(Doorkeeper(BOUNDS), one) == []
    one.count(NOW, 9_000_001, 0)
    assert closed(Doorkeeper(BOUNDS), one) == [0]
    strangers = connection(received=BOUNDS.message_bytes), connection(received=BOUNDS.message_bytes + 1)
    assert closed(Doorkeeper(BOUNDS), *strangers) == [1], "before its first message nobody has sent more than one"


def test_pings_that_are_never_delivered_are_no_unread_messages() -> None:
    week = 7 * 24 * 3600.0
    one = connection(received=int(9 * week), spoke=True)
    assert one.unread(NOW + week) == 0
    assert one.unread(NOW) > 0


def test_a_subscriber_has_nothing_to_say() -> None:
    bounds = [
        connection("weights", received=SUBSCRIPTION_BYTES),
        connection("weights", received=SUBSCRIPTION_BYTES + 1),
    ]
    assert closed(Doorkeeper(BOUNDS), *bounds, now=NOW + 9999) == [1]


def test_who_says_nothing_is_closed_unless_a_long_message_is_under_way() -> None:
    silent, spoke, slow = connection(), connection(spoke=True), connection()
    late = NOW + SILENT_SECONDS + 1
    slow.count(late - 1, 5000, 0)
    slow.count(late, 5000, 0)
    assert (slow.moved, closed(Doorkeeper(BOUNDS), silent, spoke, slow, now=late)) == (late - 1, [0])


def test_where_bytes_are_not_counted_only_numbers_are_bounded() -> None:
    keeper = Doorkeeper(Bounds(message_bytes=1, unread_bytes=1, connections=1, counts_bytes=False))
    some = [connection(received=99, spoke=True), connection("weights", received=9999)]
    assert closed(keeper, *some, now=NOW + 9999) == [1]


def test_of_too_many_strangers_the_oldest_of_the_address_that_has_most_go() -> None:
    crowd = [connection() for _ in range(12)]
    keeper = Doorkeeper(Bounds(1, 1, connections=20))
    assert closed(keeper, connection(address="10.0.0.8"), *crowd) == [1, 2, 3]
    addresses = [connection(address=f"10.0.1.{number}") for number in range(60)]
    assert closed(Doorkeeper(Bounds(1, 1, connections=100)), *addresses) == list(range(10)), "half of the room"


def test_subscribers_are_about_as_many_as_peers() -> None:
    peers = [connection(spoke=True) for _ in range(2)]
    subscribers = [connection("weights") for _ in range(SUBSCRIBERS_BESIDES + 3)]
    assert closed(Doorkeeper(BOUNDS), *peers, *subscribers, connection("weights", "10.0.0.8")) == [
        len(peers) + len(subscribers) - 1
    ]


def test_without_room_the_newest_of_whoever_has_most_go() -> None:
    keeper = Doorkeeper(Bounds(1, 1, connections=7))
    honest = [connection("weights", "10.0.0.8"), connection(address="10.0.0.8", spoke=True)]
    crowd = [connection(address=f"10.0.1.{number}", spoke=True, key_name="lab1") for number in range(6)]
    late = [connection("weights", "10.0.0.9"), connection(address="10.0.0.9", spoke=True, key_name="lab2")]
    assert closed(keeper, *honest, *crowd, *late) == [5, 6, 7]


def test_without_room_strangers_go_before_those_who_spoke_but_for_a_few() -> None:
    keeper = Doorkeeper(Bounds(1, 1, connections=400))
    honest = [connection(address="10.0.0.8", spoke=True, key_name="lab") for _ in range(300)]
    subscribers = [connection("weights", "10.0.0.8") for _ in range(30)]
    strangers = [connection(address="10.0.0.9") for _ in range(100)]
    ended = closed(keeper, *honest, *subscribers, *strangers)
    assert ended == list(range(330, 360)), "the oldest of the strangers"
    more = [connection(address="10.0.0.8", spoke=True, key_name="lab") for _ in range(50)]
    ended = closed(Doorkeeper(keeper.bounds), *honest, *subscribers, *more, *(connection() for _ in range(100)))
    assert ended == [*range(336, 380), *range(380, 416)]


def test_of_those_of_one_address_the_newest_that_said_nothing_go_then_the_newest() -> None:
    keeper = Doorkeeper(Bounds(1, 1, connections=4))
    spoke = [connection(spoke=True) for _ in range(2)]
    assert closed(keeper, *spoke, connection(), connection("weights"), connection(spoke=True), connection()) == [2, 5]
    keeper = Doorkeeper(Bounds(1, 1, connections=2))
    assert closed(keeper, *(connection(spoke=True) for _ in range(3)), connection("weights")) == [2, 3]


def test_growth_that_long_messages_do_not_explain_costs_the_greediest_its_connection() -> None:
    keeper = Doorkeeper(BOUNDS)
    keeper.all_read(10**9)
    honest = connection(received=BOUNDS.message_bytes, spoke=True)
    flood, stranger = connection(received=4_000_000, spoke=True), connection(received=STRANGERS_BYTES + 1)
    some = honest, flood, stranger
    grown = 10**9 + GREEDY_BYTES
    assert closed(keeper, *some, memory=grown) == []
    assert keeper.refuses(NOW, "control", "10.0.0.9") == ""
    grown += 11_000_000
    assert closed(keeper, *some, memory=grown) == [1]
    assert "fill the memory" in keeper.refuses(NOW, "control", "10.0.0.9")
    assert keeper.kept_out(NOW, "control") == {"10.0.0.9"}
    assert closed(keeper, *some, memory=grown + 1000) == [], "not before it has grown by as much again"
    grown += GREEDY_BYTES + 11_000_000
    assert closed(keeper, *some, memory=grown) == [2]
    assert closed(keeper, *some, memory=2 * grown) == [], "nobody is greedy: it is the learner's own"
    keeper.all_read(2 * grown)
    assert closed(keeper, *some, memory=2 * grown) == []
    assert keeper.kept_out(NOW, "control") == set()
    assert keeper.refuses(NOW, "control", "10.0.0.9") == ""


def test_where_the_memory_is_not_known_nobody_pays_for_it() -> None:
    """As for a moment when no descriptor is left to ask with."""
    keeper = Doorkeeper(BOUNDS)
    keeper.all_read(10**9)
    some = connection(received=7_000_000, spoke=True)
    assert closed(keeper, some, memory=0) == []
    assert closed(keeper, some, memory=10**9 + 1000) == []
    keeper.all_read(0)
    assert closed(keeper, some, memory=10**9 + 1000) == []
    assert keeper.refuses(NOW, "control", "10.0.0.9") == ""


def test_of_all_together_those_with_most_unread_go_until_the_others_fit() -> None:
    keeper = Doorkeeper(Bounds(1_000_000, 8_000_000, connections=100, all_unread_bytes=10_000_000))
    some = [connection(received=count * 1_000_000, spoke=True) for count in (1, 3, 2, 4)]
    assert closed(keeper, *some) == [], "10 MB in all"
    more = connection("weights", received=1000), connection(received=100_000, spoke=True)
    assert closed(keeper, *some, *more) == [3]
    assert closed(keeper, *some, *more) == [1, 3][:1], "what the first has sent is still there"
    assert closed(keeper, *some, *more) == []
    for one in some:
        one.delivered = one.received
    assert closed(keeper, connection(received=7_000_000, spoke=True), *some, *more) == []


@pytest.mark.parametrize("credit", [1, 2])
def test_an_honest_run_of_a_large_model_is_never_cut(credit: int) -> None:
    """Twenty actors whose gradients of 8 MB, and one repetition of each, wait while the learner takes a long step."""
    size = 8 * 2**20
    bounds = Bounds(size + 2**16, 8 * credit * size + 2**16, connections=1000, all_unread_bytes=size)
    keeper = Doorkeeper(bounds)
    keeper.all_read(2 * 2**30)
    actors = [connection(address=f"10.0.0.{number}", spoke=True) for number in range(20)]
    subscribers = [connection("weights", address=one.address, received=200) for one in actors]
    now = NOW
    for part in range(1, 2 * credit * 16 + 1):
        now += 1.0
        for actor in actors:
            actor.count(now, part * size // 16, 0)
        unread = sum(actor.received for actor in actors)
        for memory in (2 * 2**30 + unread, 3 * 2**30 + 2 * unread):  # the step may take some of its own
            assert closed(keeper, *actors, *subscribers, now=now, memory=memory) == []
    for actor in actors:
        actor.delivered = actor.received
    keeper.all_read(3 * 2**30)
    assert closed(keeper, *actors, *subscribers, now=now, memory=3 * 2**30) == []
    assert keeper.kept_out(now, "control") == keeper.kept_out(now, "weights") == set()


@pytest.mark.parametrize(("address", "banned"), [("10.0.0.7", True), ("2001:db8::7", True), ("127.0.0.1", False)])
def test_a_ban_is_for_a_while_and_never_for_this_host(address: str, banned: bool) -> None:
    keeper = Doorkeeper(BOUNDS)
    keeper.ban(address, NOW + 60)
    assert bool(keeper.refuses(NOW, "weights", address)) == banned
    assert not keeper.refuses(NOW, "control", "10.0.0.8")
    assert not keeper.refuses(NOW + 60, "weights", address)


def test_a_connection_that_is_open_has_not_gone() -> None:
    assert connection().gone == math.inf


def test_who_floods_a_port_is_kept_out_of_it_longer_each_time() -> None:
    keeper = Doorkeeper(BOUNDS)
    now, waits = NOW, []
    for _ in range(7):
        flood = connection("weights", "127.0.0.1", received=2 * SUBSCRIPTION_BYTES)
        assert closed(keeper, flood, now=now) == [0]
        assert keeper.kept_out(now, "weights") == {"127.0.0.1"}
        assert keeper.kept_out(now, "control") == set()
        assert keeper.refuses(now, "weights", "127.0.0.1")
        begun = now
        while keeper.kept_out(now, "weights"):
            now += 0.5
        waits.append(now - begun)
    assert waits == [1, 2, 4, 8, 16, LONGEST_OFFENCE_SECONDS, LONGEST_OFFENCE_SECONDS]
    assert closed(keeper, connection("weights", "127.0.0.1", received=9999), now=now + FORGIVEN_SECONDS + 1) == [0]
    assert keeper.kept_out(now + FORGIVEN_SECONDS + 2.5, "weights") == set()


def test_a_large_networks_own_weights_are_no_flood() -> None:
    size = 80_000_000
    keeper = Doorkeeper(Bounds(size, 8 * size, connections=100))
    keeper.all_read(500_000_000)
    assert closed(keeper, memory=500_000_000 + 2 * size) == []
    assert not keeper.refuses(NOW, "control", "10.0.0.8"), "who comes while they are packed is let in"
    assert closed(keeper, memory=500_000_000 + 4 * size) == []
    assert keeper.refuses(NOW, "control", "10.0.0.8")
