"""A learner that speaks another version of the protocol, played by the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pytest
import zmq

from common.errors import EXIT_CONFIGURATION, EXIT_DONE, EXIT_TRY_LATER
from common.host.addresses import Address
from common.wire.frames import pack, unpack
from common.wire.messages import AnyMessage, FleetOrder, FleetReport, Hello, Message, Refused, Stop, Welcome
from tests.helpers.daemons import Daemons
from tests.helpers.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
REFUSAL = Refused(code="protocol", reason="protocol 1 is not 2, the one spoken here")
M = TypeVar("M", bound=Message)


class Learner:
    """Its side of the wire."""

    def __init__(self, router: zmq.Socket[bytes]) -> None:
        self._router = router
        router.bind("tcp://127.0.0.1:*")
        self.address = Address.parse(router.getsockopt_string(zmq.LAST_ENDPOINT))
        self.hellos: dict[str, Hello] = {}
        """By incarnation."""

    def hear(self, kind: type[M]) -> tuple[bytes, M]:
        """The next message of this kind; an actor's hello is refused."""
        while self._router.poll(1000 * PATIENCE_SECONDS):
            peer, header = self._router.recv_multipart()
            message = unpack(header)
            if isinstance(message, Hello):
                self.hellos[message.incarnation] = message
                if message.role == "actor":
                    self.say(peer, REFUSAL)
            if isinstance(message, kind):
                return peer, message
        raise AssertionError(f"no {kind.__name__}")

    def say(self, peer: bytes, message: AnyMessage) -> None:
        self._router.send_multipart([peer, pack(message)])


@pytest.fixture
def learner(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Learner]:
    with context.socket(zmq.ROUTER) as router:
        yield Learner(router)


def test_who_is_refused_waits_until_the_learner_is_upgraded(daemons: Daemons, learner: Learner) -> None:
    """Launcher and actor: neither ends, and no actor is started again."""
    launcher = daemons.start("launcher", learner.address, "--slots", 1, "--name", "here")
    peer, _ = learner.hear(Hello)
    learner.say(peer, REFUSAL)
    launcher.wait_for("the learner refused this launcher: protocol 1 is not 2", "; trying again, ever more slowly")
    peer, again = learner.hear(Hello)
    assert again.role == "launcher"
    learner.say(peer, Welcome(run="r", epoch=1, heartbeat_seconds=0.2, expiry_seconds=60.0))
    learner.say(peer, FleetOrder(actors=1, why="test"))
    _, hello = learner.hear(Hello)
    _, again = learner.hear(Hello)
    launcher.wait_for("the learner refused this actor: protocol 1 is not 2")
    assert (hello.role, again.incarnation) == ("actor", hello.incarnation)
    _, report = learner.hear(FleetReport)
    assert (report.failed, report.gave_up) == (0, False)
    assert [hello.role for hello in learner.hellos.values()] == ["launcher", "actor"]
    learner.say(peer, Stop(reason="enough", final=True))
    assert launcher.wait() == EXIT_DONE


def test_who_is_told_how_long_to_wait_ends(daemons: Daemons, learner: Learner) -> None:
    actor = daemons.start("actor", learner.address, "--wait", 10)
    learner.hear(Hello)
    assert actor.wait() == EXIT_TRY_LATER
    reason = "the learner refused this actor: protocol 1 is not 2"
    assert f"no learner let this actor in for 10 s: {reason}" in actor.errors[-1]


def test_a_person_is_told_at_once(daemons: Daemons, learner: Learner) -> None:
    status = daemons.start("status", learner.address, "--timeout", 60)
    peer, _ = learner.hear(Hello)
    learner.say(peer, REFUSAL)
    assert status.wait() == EXIT_CONFIGURATION
    assert "the learner refused this observer: protocol 1 is not 2" in status.errors[-1]
