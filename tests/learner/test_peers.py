from __future__ import annotations

from collections.abc import Callable

import pytest

from common.host.load import Load
from common.wire.messages import Heartbeat, SiteReport
from learner.peer import Peer
from learner.peers import FORGIVING, REPLACED, Peers
from learner.replay_window import REMEMBERED
from tests.helpers.run import hello_of


def join(peers: Peers, name: str = "x", **changed: object) -> Peer:
    return peers.join(name.encode(), hello_of(name, **changed), 0.0)[0]


def silent(peers: Peers, now: float, seconds: float) -> list[bytes]:
    return [routing_id for routing_id, _ in peers.silent(now, seconds)]


def test_hello_again_keeps_the_record_and_another_incarnation_starts_anew() -> None:
    peers = Peers()
    first, new = peers.join(b"x", hello_of("x"), 0.0)
    assert new
    first.gradients = 5
    again, new = peers.join(b"x", hello_of("x"), 9.0)
    assert (again, new, again.seen) == (first, False, 9.0)
    other, new = peers.join(b"x", hello_of("x", incarnation="restarted"), 10.0)
    assert (new, other.gradients, len(peers.everyone())) == (True, 0, 1)
    assert other.seed != first.seed


def test_seeds_count_each_role_by_itself() -> None:
    peers = Peers()
    join(peers, "launcher", role="launcher")
    join(peers, "observer", role="observer")
    assert [join(peers, name, role="evaluator").seed for name in ("judge", "jury")] == [0, 1]
    assert peers.leave(b"judge") is not None and peers.leave(b"jury") is not None
    assert [join(peers, name).seed for name in "abc"] == [0, 1, 2]
    assert peers.actors == 3
    assert [routing_id for routing_id, _ in peers.role("actor")] == [b"a", b"b", b"c"]
    assert peers.everyone() == [b"launcher", b"observer", b"a", b"b", b"c"]
    assert peers.leave(b"a") is not None and peers.leave(b"a") is None
    assert join(peers, "a").seed == 3


def test_actors_on_this_host_are_counted_however_they_leave() -> None:
    peers = Peers()
    for name in "abc":
        peers.join(name.encode(), hello_of(name), 0.0, near=True)
    join(peers, "d")
    peers.join(b"launcher", hello_of("launcher", role="launcher"), 0.0, near=True)
    assert (peers.near_senders, peers.actors) == (3, 4)
    peers.replace(b"a")
    for routing_id in (b"b", b"b", b"d", b"launcher"):
        peers.leave(routing_id)
    assert peers.moved(b"elsewhere", hello_of("c")) == b"c"
    assert (peers.near_senders, peers.actors) == (1, 1)


def test_a_launcher_replaces_its_actor_by_one_of_the_same_name() -> None:
    peers = Peers()
    join(peers, "box-0", launcher="box")
    successor = hello_of("box-0", launcher="box", incarnation="successor")
    assert peers.replaced_by(successor) == [b"box-0"]
    for other in (
        hello_of("box-0", launcher="box"),
        hello_of("box-1", launcher="box", incarnation="successor"),
        hello_of("box-0", launcher="attic", incarnation="successor"),
        hello_of("box-0", "launcher", launcher="box", incarnation="successor"),
    ):
        assert peers.replaced_by(other) == []


def test_an_actor_started_by_hand_or_by_systemd_replaces_the_one_before_on_its_host() -> None:
    peers = Peers()
    first = join(peers, "box-0")
    second = hello_of("box-0", incarnation="second")
    assert peers.replaced_by(second) == [b"box-0"]
    assert peers.replaced_by(hello_of("box-0", incarnation="second", host="elsewhere")) == []
    peers.replace(b"box-0")
    peers.join(b"second", second, 0.0)
    assert peers.replaced_by(first.hello) == [], "it lives after all: both may have one name"


def test_a_launcher_replaces_the_one_before_wherever_it_was() -> None:
    peers = Peers()
    first = join(peers, "lab", role="launcher")
    join(peers, "other", role="launcher")
    join(peers, "actor", host="lab")
    second = hello_of("lab", "launcher", incarnation="second", host="elsewhere")
    assert peers.replaced_by(second) == [b"lab"]
    assert peers.successor(first.hello) is None
    peers.replace(b"lab")
    assert peers.successor(first.hello) is None, "nobody has its place yet"
    newer, _ = peers.join(b"second", second, 0.0)
    assert (peers.successor(first.hello), peers.successor(second)) == (newer, None)
    assert peers.replaced_by(first.hello) == []


def test_those_replaced_are_remembered_though_not_ever_so_many() -> None:
    peers = Peers()
    for number in range(REPLACED + 1):
        peers.join(b"l", hello_of("lab", "launcher", incarnation=str(number)), 0.0)
        peers.replace(b"l")
    join(peers, "lab", role="launcher")
    assert peers.successor(hello_of("lab", "launcher", incarnation="0")) is None
    assert peers.successor(hello_of("lab", "launcher", incarnation="1")) is not None


@pytest.mark.parametrize("plays", [lambda peers, peer: peers.is_duplicate(peer, 1), Peers.took_part])
def test_actors_of_two_launchers_of_one_name_do_not_drive_each_other_out_for_ever(
    plays: Callable[[Peers, Peer], object],
) -> None:
    peers = Peers()
    first = join(peers, "box-0", launcher="box")
    plays(peers, first)
    second = hello_of("box-0", launcher="box", incarnation="on another host")
    assert peers.replaced_by(second) == [b"box-0"]
    peers.leave(b"box-0")
    peers.join(b"second", second, 0.0)
    assert peers.replaced_by(first.hello) == [], "it has been here before, and lives"


def test_a_message_counts_as_heard_under_the_key_that_its_sender_joined_with() -> None:
    peers = Peers()
    peer, _ = peers.join(b"x", hello_of("x"), 0.0, "lab")
    assert peers.hears(2.0, b"x", "lab") is peer and peer.seen == 2.0
    assert peers.hears(3.0, b"x", "") is None and peers.hears(3.0, b"y", "lab") is None
    assert peer.seen == 2.0


def test_silent_for_longer_than() -> None:
    peers = Peers()
    x, y = join(peers, "x"), join(peers, "y")
    x.state = y.state = "working"
    y.seen = 5.0
    assert silent(peers, 30.0, 30.0) == []
    assert silent(peers, 30.1, 30.0) == [b"x"]


@pytest.mark.parametrize(("role", "seconds"), [("actor", 300.0), ("evaluator", 300.0), ("launcher", 30.0)])
def test_a_worker_that_has_sent_no_heartbeat_yet_may_be_silent_for_longer(role: str, seconds: float) -> None:
    peers = Peers()
    peer = join(peers, role=role)
    assert silent(peers, seconds, 30.0) == []
    assert silent(peers, seconds + 0.1, 30.0) == [b"x"]
    peer.tells(0.0, Heartbeat(state="working"))
    assert silent(peers, 30.1, 30.0) == [b"x"]


def test_numbers_are_remembered_when_a_peer_is_gone_though_not_of_ever_so_many() -> None:
    peers = Peers()
    peer = join(peers)
    peers.is_duplicate(peer, 1)
    peers.leave(b"x")
    assert peers.is_duplicate(join(peers), 1)
    flood(peers, 0, REMEMBERED - 1)
    assert not peers.is_duplicate(join(peers), 2)
    flood(peers, REMEMBERED, REMEMBERED - 1)
    assert peers.is_duplicate(join(peers), 1), "forgotten are those that sent nothing for longest"
    flood(peers, 2 * REMEMBERED, REMEMBERED)
    assert not peers.is_duplicate(join(peers), 1)


def flood(peers: Peers, first: int, count: int) -> None:
    """So many other incarnations send a gradient."""
    for number in range(first, first + count):
        peers.is_duplicate(join(peers, "flood", incarnation=str(number)), 1)


def test_who_has_worked_is_known_by_its_incarnation() -> None:
    peers = Peers()
    peers.is_duplicate(join(peers, "x"), 1)
    assert peers.has_worked(hello_of("x")) and not peers.has_worked(hello_of("x", incarnation="restarted"))


def test_hosts_are_shown_as_whoever_was_heard_last_says() -> None:
    peers = Peers()
    assert peers.hosts("gpu-box", None) == []
    for name, host, seen, processor in (("x", "lab", 1.0, 0.1), ("y", "lab", 2.0, 0.2), ("z", "attic", 1.0, None)):
        peer = join(peers, name, host=host)
        peer.seen, peer.load = seen, None if processor is None else Load(processor, 1, 4)
    join(peers, "l", role="launcher", host="gpu-box").load = Load(0.9, 1, 4)
    join(peers, "o", role="observer", host="screen").load = Load(0.9, 1, 4)
    own = Load(0.3, 2, 4)
    shown = {one.name: (one.actors, one.processor, one.memory) for one in peers.hosts("gpu-box", own)}
    assert shown == {"gpu-box": (0, 0.3, 2), "lab": (2, 0.2, 1)}


def test_keys_are_shown_with_when_they_were_heard_also_when_nobody_is_left() -> None:
    peers = Peers()
    assert peers.keys(9.0) == []
    peers.key_roles = {"lab": ("actor",), "attic": ("observer", "operator")}
    for name, seen in (("x", 3.0), ("y", 5.0)):
        peers.join(name.encode(), hello_of(f"lab/{name}"), 0.0, "lab")[0].seen = seen
    peers.join(b"gone", hello_of("gone/1"), 0.0, "gone")
    assert [(one.name, one.roles, one.peers, one.seen) for one in peers.keys(9.0)] == [
        ("lab", ["actor"], 2, 4.0),
        ("attic", ["observer", "operator"], 0, None),
    ]
    peers.leave(b"y")
    peers.leave(b"x")
    assert [(one.peers, one.seen) for one in peers.keys(9.0)] == [(0, 4.0), (0, None)]


def test_a_process_that_connects_anew_keeps_its_record() -> None:
    peers = Peers()
    peer = join(peers, "x")
    assert peers.moved(b"x", peer.hello) is None
    for other in (hello_of("x", incarnation="restarted"), hello_of("x", "observer"), hello_of("y")):
        assert peers.moved(b"new", other) is None
    assert peers.moved(b"new", peer.hello, "lab7") is None, "under another key it is another"
    assert peers.moved(b"new", peer.hello) == b"x"
    assert peers.join(b"new", peer.hello, 1.0) == (peer, False)
    assert (peers.get(b"x"), peers.actors, peers.everyone()) == (None, 1, [b"new"])


def test_a_process_that_connects_anew_may_come_from_another_address() -> None:
    peers = Peers()
    peer, _ = peers.join(b"x", hello_of("x"), 0.0, "", "address 127.0.0.1", near=True)
    assert peers.near_senders == 1
    peers.moved(b"new", peer.hello)
    peers.join(b"new", peer.hello, 1.0, "", "address 10.0.0.9")
    assert (peer.place, peers.near_senders) == ("address 10.0.0.9", 0)
    peers.leave(b"new")
    assert peers.near_senders == 0


def test_bytes_under_way_are_a_sign_of_life() -> None:
    peers = Peers()
    x, y = join(peers, "x"), join(peers, "y")
    x.state = y.state = "working"
    y.seen = 50.0
    peers.alive({b"x": 40.0, b"y": 40.0, b"nobody": 40.0})
    assert silent(peers, 60.0, 15.0) == [b"x"]
    assert silent(peers, 60.0, 20.0) == []


def test_who_plays_is_known_until_it_leaves_and_when_it_connects_anew() -> None:
    peers = Peers()
    one, _ = peers.join(b"1", hello_of("one"), 0.0)
    peers.join(b"2", hello_of("two"), 0.0)
    assert peers.playing == set()
    peers.playing.add(one.incarnation)
    assert peers.playing == {one.incarnation}
    assert peers.moved(b"3", hello_of("one")) == b"1"
    assert peers.playing == {one.incarnation}
    peers.leave(b"3")
    assert peers.playing == set()


def test_who_is_left_behind_is_not_waited_for_again_because_it_connects_anew() -> None:
    peers = Peers()
    one, _ = peers.join(b"1", hello_of("one"), 0.0)
    two, _ = peers.join(b"2", hello_of("two"), 0.0)
    peers.playing |= {one.incarnation, two.incarnation}
    assert peers.leave_behind([two.incarnation], 7) == ["one"]
    one.plays = True
    peers.moved(b"3", hello_of("one"))
    assert peers.playing == {two.incarnation}


def test_one_contribution_in_time_does_not_make_good_for_being_late() -> None:
    peers = Peers()
    one, _ = peers.join(b"1", hello_of("one"), 0.0)
    two, _ = peers.join(b"2", hello_of("two"), 0.0)

    def waited_for(version: int) -> bool:
        peers.contributed(one, version, stale=False)
        return one.incarnation in peers.playing

    assert waited_for(7)
    assert peers.leave_behind([two.incarnation], 7) == ["one"]
    assert [waited_for(version) for version in (8, 9)] == [False, True]
    assert peers.leave_behind([two.incarnation], 9) == ["one"]
    assert [waited_for(version) for version in (10, 11, 12, 13)] == [False, False, False, True]
    assert all(waited_for(version) for version in range(14, 14 + FORGIVING))
    assert one.late == 1
    assert all(waited_for(version) for version in range(14 + FORGIVING, 20 + 2 * FORGIVING))
    assert one.late == 0


def test_whoever_keeps_something_of_a_peer_is_told_when_it_leaves_or_moves() -> None:
    peers, told = Peers(), list[bytes]()
    peers.on_leave.append(told.append)
    peers.join(b"1", hello_of("a"), 0.0)
    assert peers.leave(b"nobody") is None and told == []
    peers.moved(b"2", hello_of("a"))
    assert told == [b"1"]
    peers.leave(b"2")
    assert told == [b"1", b"2"]


def test_a_relay_counts_for_the_actors_that_it_told_of_last_and_as_one_who_sends() -> None:
    peers = Peers()
    join(peers, "a")
    relay = join(peers, "site", role="relay")
    assert (peers.actors, peers.senders, relay.actors) == (1, 2, 0), "it has told of nobody yet"
    peers.site_reported(relay, SiteReport(actors=12, named=[(0, "x", 1.0)]))
    peers.site_reported(relay, SiteReport(actors=9, named=[(0, "x", 1.0), (4, "y", 2.0)]))
    assert (peers.actors, peers.senders) == (10, 2)
    assert peers.sources == {"a", "site", "site#0", "site#4"}
    assert peers.moved(b"elsewhere", hello_of("site", "relay")) == b"site"
    assert (peers.actors, peers.senders) == (10, 2)
    peers.leave(b"elsewhere")
    assert (peers.actors, peers.senders, peers.sources) == (1, 1, {"a"})


def test_the_names_behind_relays_are_known_where_all_are_told() -> None:
    peers = Peers()
    assert peers.site_names == set()
    first, second = (join(peers, name, role="relay") for name in ("one", "two"))
    peers.site_reported(first, SiteReport(actors=1, named=[(0, "x", 1.0)]))
    assert peers.site_names == {"x"}
    peers.site_reported(second, SiteReport(actors=2, named=[(0, "y", 1.0)]))
    assert peers.site_names is None
