from __future__ import annotations

from dataclasses import dataclass, field

from simulation.event_queue import EventQueue
from simulation.network import BREAK_SECONDS, BROADCASTS_UNDER_WAY, Connection, Frames, Network
from simulation.settings import Link

SLOW = Link(delay=1.0)


@dataclass
class Listening:
    heard: list[tuple[bytes, Frames]] = field(default_factory=list)

    def receive(self, routing_id: bytes, address: str, frames: Frames) -> None:
        self.heard.append((routing_id, frames))


@dataclass
class Connecting:
    heard: list[bytes] = field(default_factory=list)
    connections: int = 0
    bytes: int = 0

    def receive(self, frames: Frames) -> None:
        self.heard += frames

    def hear(self, frame: bytes) -> None:
        self.heard.append(frame)

    def connected(self) -> None:
        self.connections += 1

    def arrived(self, size: int) -> None:
        self.bytes += size


class Two:
    """A learner and one peer."""

    def __init__(self) -> None:
        self.queue = EventQueue()
        self.network = Network(self.queue, seed=0)
        self.learner, self.peer = Listening(), Connecting()
        self.network.learner_back(self.learner)
        self.connection: Connection = self.network.connect(b"one", self.peer, SLOW, "10.0.0.1")

    def say(self, *words: bytes) -> None:
        for word in words:
            self.network.send_up(self.connection, [word])
            self.network.send_down(b"one", [word])

    def after(self, seconds: float) -> Two:
        self.queue.run(self.queue.now + seconds)
        return self

    @property
    def up(self) -> list[bytes]:
        return [frame for _, frames in self.learner.heard for frame in frames]


def test_messages_go_both_ways_and_the_sender_hears_that_they_have_arrived() -> None:
    two = Two()
    two.say(b"hello", b"you")
    assert not two.after(0.9).up
    two.after(0.2)
    assert two.up == two.peer.heard == [b"hello", b"you"]
    assert two.peer.bytes == 8
    assert two.peer.connections == 1


def test_without_a_learner_nothing_is_queued_until_there_is_one() -> None:
    two = Two()
    two.network.learner_gone()
    assert not two.network.send_up(two.connection, [b"lost"])
    two.network.learner_back(two.learner)
    two.after(1.0)
    assert two.peer.connections == 2
    assert two.network.send_up(two.connection, [b"found"])
    assert two.after(2.0).up == [b"found"]


def test_what_is_under_way_when_a_connection_breaks_is_lost() -> None:
    two = Two()
    two.say(b"lost")
    two.after(0.5)
    two.network.disconnect(b"one")
    two.after(5.0)
    assert two.up == two.peer.heard == []
    assert two.peer.connections == 2


def test_a_banned_peer_connects_later() -> None:
    two = Two()
    two.network.disconnect(b"one", 60.0)
    assert two.after(59.0).peer.connections == 1
    assert two.after(2.0).peer.connections == 2


def test_a_cable_that_is_mended_soon_has_held_everything_up() -> None:
    two = Two()
    two.network.cut(two.connection)
    two.say(b"late", b"later")
    assert not two.after(BREAK_SECONDS / 2).up
    two.network.heal(two.connection)
    assert two.up == two.peer.heard == [b"late", b"later"]
    assert two.after(5.0).peer.connections == 1


def test_one_that_is_mended_late_is_a_new_connection() -> None:
    two = Two()
    two.network.cut(two.connection)
    two.say(b"lost")
    two.after(BREAK_SECONDS + 1)
    assert not two.network.send_up(two.connection, [b"nowhere"])
    two.network.heal(two.connection)
    two.after(1.0)
    assert (two.up, two.peer.connections) == ([], 2)


def test_the_second_cut_of_a_cable_breaks_as_late_as_the_first() -> None:
    two = Two()
    two.network.cut(two.connection)
    two.after(BREAK_SECONDS - 1)
    two.network.heal(two.connection)
    two.network.cut(two.connection)
    two.say(b"late")
    two.after(BREAK_SECONDS - 1)
    two.network.heal(two.connection)
    assert (two.up, two.peer.connections) == ([b"late"], 1)


def test_a_slow_subscriber_misses_broadcasts() -> None:
    two = Two()
    two.network.publish(b"nobody listens")
    two.connection.subscribed = True
    for number in range(5):
        two.network.publish(b"%d" % number)
    two.after(2.0)
    assert two.peer.heard == [b"0", b"1"]
    assert two.network.broadcasts_dropped == 5 - BROADCASTS_UNDER_WAY


def test_what_a_process_said_before_it_ended_arrives() -> None:
    two = Two()
    two.say(b"goodbye")
    two.network.close(two.connection)
    two.after(2.0)
    assert two.up == [b"goodbye"]
    assert two.network.connections() == []


def test_a_broadcast_to_a_cut_cable_waits_and_one_of_a_broken_connection_is_lost() -> None:
    two = Two()
    two.connection.subscribed = True
    two.network.publish(b"held")
    two.network.cut(two.connection)
    assert two.after(2.0).peer.heard == []
    two.network.heal(two.connection)
    assert two.peer.heard == [b"held"]
    two.network.publish(b"lost")
    two.network.disconnect(b"one")
    assert two.after(2.0).peer.heard == [b"held"]
    assert two.connection.news.under_way == 0
