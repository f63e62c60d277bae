from __future__ import annotations

import os
import platform

import pytest
import zmq

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.host.versions import versions
from common.wire import client, sockets
from common.wire.client import LearnerLink, introduce
from common.wire.frames import Buffer, pack, split, unpack
from common.wire.messages import MAX_NAME, PROTOCOL, AnyMessage, Goodbye, Heartbeat, Hello, Pull, Weights

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


def connect(context: Context, learner: Learner, hello: Hello | None = None) -> tuple[LearnerLink, bytes]:
    """A link whose hello has been heard, and its routing id."""
    link = LearnerLink(context, LearnerEndpoint(learner.address))
    assert link.socket.poll(PATIENCE_MS, zmq.POLLOUT), "no connection"
    assert link.send(hello or introduce("actor", NOBODY, "lab7"))
    peer, message, body = learner.hear()
    assert isinstance(message, Hello)
    assert body is None
    return link, peer


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
