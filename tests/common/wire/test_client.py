from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from common.errors import ConfigurationError, RefusedError
from common.host.addresses import Address
from common.host.load import Load, LoadMeter
from common.host.security import allowed
from common.host.security.access import LearnerEndpoint
from common.host.versions import own_version, versions
from common.wire import client, sockets
from common.wire.client import LearnerLink, introduce
from common.wire.frames import Buffer, pack, split, unpack
from common.wire.membership import Membership
from common.wire.messages import MAX_NAME, PROTOCOL, AnyMessage, Goodbye, Heartbeat, Hello, Pull, Weights
from tests.helpers.knocking import PEER, Guarded

Context = zmq.Context[zmq.Socket[bytes]]
PATIENCE_MS = 10_000
NOBODY = LearnerEndpoint(Address("127.0.0.1", 5555))


class Learner:
    """The other end of the wire."""

    def __init__(self, context: Context) -> None:
        self.socket = sockets.router(context, 2**20)
        sockets.bind(self.socket, sockets.reserve(Address("127.0.0.1", 0)))
        self.address = Address.parse(self.socket.getsockopt_string(zmq.LAST_ENDPOINT))

    def hear(self) -> tuple[bytes, AnyMessage, Buffer | None]:
        assert self.socket.poll(PATIENCE_MS), "nothing came"
        peer, *frames = self.socket.recv_multipart(zmq.NOBLOCK)
        return peer, *split(frames)


@pytest.fixture
def learner(context: Context) -> Learner:
    return Learner(context)


def see_connection(link: LearnerLink) -> None:
    membership = Membership(introduce("actor", NOBODY), 0.0)
    while not link.watch(0.0, membership):
        assert link.monitor.poll(PATIENCE_MS), "no connection"


def connect(context: Context, learner: Learner, hello: Hello | None = None) -> tuple[LearnerLink, bytes]:
    """A link whose hello has been heard, and its routing id."""
    link = LearnerLink(context, LearnerEndpoint(learner.address))
    see_connection(link)
    assert link.send(hello or introduce("actor", NOBODY, "lab7"))
    peer, message, body = learner.hear()
    assert isinstance(message, Hello)
    assert body is None
    return link, peer


def test_a_heartbeat_says_how_busy_this_host_is_where_that_is_asked_for(context: Context, learner: Learner) -> None:
    class Meter(LoadMeter):
        told: Load | None = Load(0.5, 2**30, 2**34)

        def look(self) -> Load | None:
            return self.told

    meter = Meter()
    link = LearnerLink(context, LearnerEndpoint(learner.address), meter)
    see_connection(link)
    link.send(Heartbeat(state="working"))
    told = {"processor": 0.5, "memory": 2**30, "memory_total": 2**34}
    assert learner.hear()[1] == Heartbeat(state="working", **told)
    meter.told = None
    link.send(Heartbeat(state="working"))
    assert learner.hear()[1] == Heartbeat(state="working")
    link.close()


def test_introduce() -> None:
    hello = introduce("actor", NOBODY, launcher="here", codecs=("none", "fp16"))
    assert hello.protocol == PROTOCOL
    assert (hello.role, hello.launcher, hello.codecs) == ("actor", "here", ["none", "fp16"])
    assert hello.name == f"{hello.host}-{os.getpid()}"
    assert hello.pid == os.getpid()
    assert hello.versions == versions()
    assert unpack(pack(hello)) == hello


def test_each_process_has_an_incarnation_of_its_own() -> None:
    assert introduce("observer", NOBODY, "a").incarnation != introduce("observer", NOBODY, "a").incarnation


def test_a_host_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "")
    assert introduce("observer", NOBODY).host == "unknown"


def test_a_name_no_learner_would_read_is_refused_here() -> None:
    assert introduce("actor", NOBODY, "n" * MAX_NAME).name == "n" * MAX_NAME
    with pytest.raises(ConfigurationError, match=r"a name of 129 characters: .* at most 128"):
        introduce("actor", NOBODY, "n" * (MAX_NAME + 1))


def test_without_a_learner_nothing_is_sent_and_nothing_queued(context: Context) -> None:
    with sockets.reserve(Address("127.0.0.1", 0)) as listener:
        address = Address("127.0.0.1", listener.getsockname()[1])
    link = LearnerLink(context, LearnerEndpoint(address))
    assert not link.send(link_hello := introduce("actor", NOBODY))
    assert not link.send(link_hello, b"body")
    assert list(link.receive()) == []
    link.close()


def test_nothing_is_sent_on_a_connection_that_was_not_seen_yet(context: Context, learner: Learner) -> None:
    """A hello before would be answered, and the connection seen after that be taken for one that needs a hello."""
    link = LearnerLink(context, LearnerEndpoint(learner.address))
    assert link.socket.poll(PATIENCE_MS, zmq.POLLOUT), "no connection"
    assert not link.send(introduce("actor", NOBODY))
    see_connection(link)
    assert link.send(Pull(version=1))
    assert learner.hear()[1] == Pull(version=1)
    link.close()


@pytest.mark.parametrize("size", [0, 10, 100_000])
def test_a_message_with_its_body(context: Context, learner: Learner, size: int) -> None:
    link, _ = connect(context, learner)
    body = bytes(size)
    assert link.send(Pull(version=1), body)
    _, message, received = learner.hear()
    assert message == Pull(version=1)
    assert received == body


def test_what_arrives(context: Context, learner: Learner) -> None:
    link, peer = connect(context, learner)
    learner.socket.send_multipart([peer, b"garbage"])
    learner.socket.send_multipart([peer, pack(Weights(version=2, epoch=1)), b"body"])
    learner.socket.send_multipart([peer, pack(Heartbeat())])
    received: list[tuple[AnyMessage, Buffer | None]] = []
    while len(received) < 2:
        assert link.socket.poll(PATIENCE_MS), "nothing came"
        received += link.receive()
    assert received == [(Weights(version=2, epoch=1), b"body"), (Heartbeat(), None)]


def test_a_flood_is_read_in_portions(context: Context, learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_DRAIN", 3)
    link, peer = connect(context, learner)
    for _ in range(5):
        learner.socket.send_multipart([peer, pack(Heartbeat())])
    portions: list[int] = []
    while sum(portions) < 5:
        assert link.socket.poll(PATIENCE_MS), "nothing came"
        portions.append(len(list(link.receive())))
    assert max(portions) <= 3


def test_a_last_goodbye_leaves(context: Context, learner: Learner) -> None:
    link, _ = connect(context, learner)
    link.send(Goodbye(reason="done"))
    link.close()
    assert learner.hear()[1] == Goodbye(reason="done")


@pytest.fixture
def guarded(context: Context, tmp_path: Path) -> Iterator[Guarded]:
    one = Guarded(context, tmp_path)
    yield one
    one.close()


def test_one_whose_key_is_not_allowed_is_let_in_when_it_is(guarded: Guarded) -> None:
    guarded.open()
    guarded.knock()
    guarded.until(lambda: bool(guarded.membership.obstacle), "a refusal")
    assert f"`a3cd keys allow '{PEER.public}' --name lab7`" in guarded.membership.obstacle
    assert guarded.membership.notice(guarded.now) is not None
    allowed.allow(guarded.list, PEER.public, PEER.name)
    for _ in range(50):
        guarded.look()
        assert not guarded.connected, "it does not knock again at once"
        time.sleep(0.005)
    guarded.now += client.HELLO_SECONDS
    guarded.until(lambda: guarded.connected, "a connection")
    assert guarded.link.send(guarded.membership.hello), "on the new connection at once"


def test_it_knocks_ever_more_rarely(guarded: Guarded) -> None:
    guarded.open()
    guarded.knock()
    pauses = []
    for _ in range(9):
        guarded.until(lambda: guarded.link._connect_due < float("inf"), "a refusal")
        pauses.append(guarded.link._connect_due - guarded.now)
        guarded.now = guarded.link._connect_due
        guarded.look()
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_learner_that_was_started_without_its_keys_for_a_moment(guarded: Guarded) -> None:
    guarded.open(keys=False)
    guarded.knock()
    guarded.until(lambda: bool(guarded.membership.obstacle), "a refusal")
    assert "was started without keys" in guarded.membership.obstacle
    guarded.close()
    allowed.allow(guarded.list, PEER.public, PEER.name)
    guarded.open()
    guarded.now += client.HELLO_SECONDS
    guarded.until(lambda: guarded.connected, "a connection")


def test_a_command_is_told_at_once(guarded: Guarded) -> None:
    guarded.open()
    guarded.knock(patient=False)
    with pytest.raises(RefusedError, match="does not let the key of lab7 in"):
        guarded.until(lambda: False, "a refusal")


@pytest.mark.parametrize("patient", [True, False])
def test_another_learner_s_key_is_told_when_it_lasts(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, patient: bool
) -> None:
    monkeypatch.setattr(client, "MAX_FAILED_HANDSHAKES", 3)
    guarded.open()
    guarded.knock(patient=patient, learner_key=PEER.public)
    try:
        guarded.until(lambda: bool(guarded.membership.obstacle), "a refusal")
    except RefusedError as error:
        assert not patient and "does not hold the learner's key" in str(error)
    else:
        assert patient and "does not hold the learner's key" in guarded.membership.obstacle


def test_a_handshake_that_nobody_answers_is_no_refusal(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that has no learner yet takes connections, but says nothing on them."""

    def hands_shaken(seconds: float) -> None:
        for _ in range(client.MAX_FAILED_HANDSHAKES):
            for event in (zmq.EVENT_CONNECTED, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL):
                monkeypatch.setattr(sockets, "events_with_values", lambda _, event=event: iter([(event, -1)]))
                guarded.look()
                guarded.now += seconds

    guarded.open()
    guarded.knock()
    hands_shaken(30.0)
    assert not guarded.membership.obstacle
    hands_shaken(0.1)
    assert "does not hold the learner's key" in guarded.membership.obstacle


def tell_nonsense(link: LearnerLink, learner: Learner, peer: bytes) -> None:
    learner.socket.send_multipart([peer, pack(Heartbeat()) + b"more"])
    assert link.socket.poll(PATIENCE_MS)
    assert list(link.receive()) == []


@pytest.mark.parametrize("patient", [True, False])
def test_a_learner_that_cannot_be_understood(context: Context, learner: Learner, patient: bool) -> None:
    link, peer = connect(context, learner)
    membership = Membership(introduce("actor", NOBODY), 100.0, patient=patient)
    membership.member = True
    tell_nonsense(link, learner, peer)
    link.watch(100.0, membership)
    membership.member = False
    link.watch(100.0, membership)
    assert not membership.obstacle, "what a member could not read does not keep it out later"
    tell_nonsense(link, learner, peer)
    if patient:
        link.watch(100.0, membership)
        assert f"is not understood here (a3cd {own_version()})" in membership.obstacle
    else:
        with pytest.raises(RefusedError, match="is not understood here"):
            link.watch(100.0, membership)


def test_what_has_arrived_at_the_learner_is_counted_once(context: Context, learner: Learner) -> None:
    link, _ = connect(context, learner)
    membership = Membership(introduce("actor", NOBODY, "lab7"), 0.0)

    def arrived(least: int) -> int:
        count, until = 0, time.monotonic() + 10.0
        while count < least:
            assert time.monotonic() < until
            link.watch(1.0, membership)
            count += link.arrived()
        return count

    arrived(64)
    time.sleep(0.3)  # what is under way arrives
    link.watch(1.0, membership)
    link.arrived()
    assert link.send(Goodbye(reason="so"), bytes(100_000))
    assert 100_000 < arrived(100_000) < 100_200
    assert link.arrived() == 0
    link.close()


def test_half_a_message_is_a_sign_of_life(context: Context, learner: Learner) -> None:
    """Of the largest messages a slow link brings a piece at a time."""
    link, peer = connect(context, learner)
    heard: list[float] = []

    class Noted(Membership):
        def alive(self, now: float) -> None:
            heard.append(now)

    membership = Noted(introduce("actor", NOBODY, "lab7"), 0.0)
    until = time.monotonic() + 10.0
    while not heard:
        assert time.monotonic() < until
        link.watch(1.0, membership)
    time.sleep(0.3)  # what is under way arrives
    link.watch(2.0, membership)
    heard.clear()
    link.watch(3.0, membership)
    assert heard == []
    learner.socket.send_multipart([peer, bytes(100_000)])
    until = time.monotonic() + 10.0
    while not heard:
        assert time.monotonic() < until
        link.watch(4.0, membership)
    link.close()


def test_a_name_is_tried_as_ipv4_and_as_ipv6_in_turns_until_something_listens(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "TRIES_PER_FAMILY", 1)
    reserved = sockets.reserve_pair(Address("127.0.0.1", 0))
    port = reserved[0].getsockname()[1]
    for one in reserved:
        one.close()
    link = LearnerLink(context, LearnerEndpoint(Address("localhost", port)))
    membership = Membership(introduce("observer", link._access), 0.0)
    seen = [link.ipv6]
    end = time.monotonic() + 20.0
    while len(seen) < 3:
        assert time.monotonic() < end
        link.watch(time.monotonic(), membership)
        seen += [link.ipv6] if link.ipv6 != seen[-1] else []
        time.sleep(0.01)
    assert seen == [False, True, False]
    link.close()
