"""A learner with keys: those whom it does not know get no byte in, however often they try, and the log stays short."""

from __future__ import annotations

import contextlib
import shlex
import socket
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from common.errors import EXIT_SIGTERM, ConfigurationError, RefusedError
from common.host.security.access import LearnerEndpoint
from common.host.security.credential import Credential
from common.host.security.keys import KeyPair
from common.run import presets
from common.wire.client import introduce
from common.wire.frames import pack
from tests.helpers.daemons import Daemon, terminate
from tests.helpers.stranger import GREETING
from tests.hosts.conftest import LEARNER, Site, at_work

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

KEYS = "/etc/a3cd/keys"
TRIES = 200
"""Connections of each stranger."""
FAILURES = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL


@dataclass
class Locked:
    """A learner with keys on the first host, and an actor that was invited on the second."""

    site: Site
    learner: Daemon
    actor: Daemon
    credential: Credential

    @property
    def way_in(self) -> LearnerEndpoint:
        return LearnerEndpoint(LEARNER, self.credential)

    def lines(self, text: str) -> int:
        """How often the learner said this."""
        return sum(text in line for line in self.learner.said.splitlines())


@pytest.fixture(scope="module")
def locked(site: Site) -> Locked:
    first = site.on[0]
    first.run("keys", "new", "learner")
    (line,) = first.run("keys", "invite", "h2", "--learner", LEARNER).printed.splitlines()
    program, *words = shlex.split(line)
    assert (program, words[0]) == ("a3cd", "actor")
    config = first.config(presets.show("CartPole-v1").text)
    paced = ("--set", "environment.step_seconds=0.01", "--set", "limits.until_return=1000.0")
    learner = first.start("learner", "--config", config, "--bind", LEARNER, "--run-dir", "run", *paced)
    actor = site.on[1].start(*words)
    learner.wait_for("listens on")
    return Locked(site, learner, actor, Credential.from_invitation(words[1]))


def test_the_one_that_was_invited_plays(locked: Locked) -> None:
    status = locked.site.status_when(at_work("h2"), "the invited actor at work", locked.way_in)
    assert [(peer.name, peer.pid) for peer in status.actors] == [(f"h2/h2-{locked.actor.pid}", locked.actor.pid)]
    asked = locked.site.on[0].run("status", LEARNER, "--keys", KEYS, "--json", "--timeout", 60).result
    assert [peer["host"] for peer in asked["actors"]] == ["h2"]


def test_beyond_this_machine_nobody_starts_without_keys(locked: Locked) -> None:
    third = locked.site.on[2]
    config = third.config(presets.show("CartPole-v1").text)
    for words in (
        ("learner", "--config", config, "--bind", "tcp://10.77.0.3:5555"),
        ("actor", LEARNER),
        ("status", LEARNER),
    ):
        refused = third.run(*words, code=ConfigurationError.exit_code)
        assert "--insecure" in refused.errors[-1]
        assert "a3cd keys" in refused.errors[-1]


def no_key(zsocket: zmq.Socket[bytes], locked: Locked) -> None:
    """Speaks without CURVE: first by hand, as libzmq may hang up before the learner has read so and can say it."""
    with socket.create_connection((LEARNER.host, LEARNER.port), timeout=10) as one:
        one.sendall(GREETING)
        with contextlib.suppress(ConnectionResetError):
            while one.recv(64):
                pass


def unknown_key(zsocket: zmq.Socket[bytes], locked: Locked) -> None:
    """Knows the learner's key; its own is not allowed."""
    _speak_curve(zsocket, locked.credential.learner_key)


def wrong_learner(zsocket: zmq.Socket[bytes], locked: Locked) -> None:
    """Takes the learner for another."""
    _speak_curve(zsocket, KeyPair.generate("other").public)


def _speak_curve(zsocket: zmq.Socket[bytes], learner_key: str) -> None:
    own = KeyPair.generate("stranger")
    zsocket.setsockopt(zmq.CURVE_SERVERKEY, learner_key.encode())
    zsocket.setsockopt(zmq.CURVE_PUBLICKEY, own.public.encode())
    zsocket.setsockopt(zmq.CURVE_SECRETKEY, own.secret.encode())


def _knock(zsocket: zmq.Socket[bytes], hello: bytes) -> None:
    """Connects, has something to say, and is sent away."""
    events = zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED
    with zsocket.get_monitor_socket(events | FAILURES) as monitor:
        zsocket.connect(str(LEARNER))
        for frames in ([hello], [b"\xff junk", b"junk"]):
            with contextlib.suppress(zmq.Again):  # libzmq drops the pipe of one that was sent away: no room, for ever
                zsocket.send_multipart(frames, zmq.NOBLOCK)
        seen = 0
        while not (seen & zmq.EVENT_CONNECTED and seen & ~zmq.EVENT_CONNECTED):
            assert monitor.poll(20_000), f"events {seen}"
            seen |= recv_monitor_message(monitor)["event"]
        zsocket.disable_monitor()
    assert not zsocket.poll(0), "it was answered"
    zsocket.close(linger=0)


@pytest.mark.parametrize(
    ("stranger", "told"),
    [
        (no_key, "a peer without a key, or with another learner's, was refused"),
        (unknown_key, "shown from 10.77.0.3, is not allowed here"),
        (wrong_learner, "a peer without a key, or with another learner's, was refused"),
    ],
)
def test_a_stranger_that_hammers_gets_no_byte_in(
    locked: Locked,
    context: zmq.Context[zmq.Socket[bytes]],
    stranger: Callable[[zmq.Socket[bytes], Locked], None],
    told: str,
) -> None:
    before = locked.site.status_when(lambda status: True, "the learner to answer", locked.way_in)
    hello = pack(introduce("actor", LearnerEndpoint(LEARNER), "stranger"))
    with locked.site.hosts[2].inside():
        for _ in range(TRIES):
            zsocket = context.socket(zmq.DEALER)
            stranger(zsocket, locked)
            _knock(zsocket, hello)
    locked.learner.wait_for(told)
    after = locked.site.status_when(
        lambda status: status.gradients > before.gradients, "the run to go on", locked.way_in
    )
    assert [peer.name for peer in after.actors] == [peer.name for peer in before.actors]
    assert (after.refused, after.warnings) == (0, [])
    assert 1 <= locked.lines(told) <= 3, "once a minute"
    assert len(locked.learner.said.splitlines()) < 20
    assert locked.lines("bytes that are no message") == 0


def test_bytes_of_another_protocol_are_not_looked_at(locked: Locked) -> None:
    with locked.site.hosts[2].inside():
        for _ in range(TRIES):
            with socket.create_connection((LEARNER.host, LEARNER.port), timeout=10) as one:
                one.sendall(b"GET / HTTP/1.1\r\nHost: learner\r\n\r\n")
    locked.site.status_when(at_work("h2"), "the run to go on", locked.way_in)
    assert len(locked.learner.said.splitlines()) < 20


def test_who_is_revoked_is_cut_off_and_may_be_let_in_again(locked: Locked) -> None:
    """The last test: the actor that was invited ends here, as it is told to."""
    first, second, _ = locked.site.on
    public = locked.credential.pair.public
    first.run("keys", "revoke", "h2")
    locked.learner.wait_for("was cut off: its key is not allowed any more")
    locked.actor.wait_for("does not let the key of h2 in", "; trying again, ever more slowly")
    status = first.run("status", LEARNER, "--keys", KEYS, "--json", "--timeout", 60).result
    assert status["actors"] == []
    refused = second.run("status", LEARNER, "--timeout", 60, code=RefusedError.exit_code)  # the invitation was kept
    assert 1 <= locked.lines(f"the key {public}, shown from 10.77.0.2, is not allowed here") <= 3
    program, *words = shlex.split(refused.errors[-1].split("`")[1])
    assert program == "a3cd"
    first.run(*words)
    locked.learner.wait_for("allowed now: h2")
    locked.site.status_when(at_work("h2"), "the actor that was let in again", locked.way_in)
    assert terminate(locked.actor) == [EXIT_SIGTERM]
