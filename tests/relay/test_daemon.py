"""The relay's shell, in this process; its learner and its actors are in a thread."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zmq

from common.errors import RefusedError, UnavailableError
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.wire import sockets
from common.wire.bodies.broadcast import Broadcast
from common.wire.messages import (
    Acknowledgement,
    Goodbye,
    Gradient,
    Heartbeat,
    Hello,
    Inspect,
    Refused,
    SiteReport,
    Stop,
    Welcome,
)
from relay import daemon
from relay.daemon import run
from tests.helpers.beside import beside, interrupt
from tests.helpers.daemons import free_address
from tests.helpers.peer import Peer
from tests.helpers.run import gradient_of, hello_of, settings_of
from tests.helpers.scripted import Learner

SMALL = (
    *("network.kind='dense'", "network.hidden=[4]", "environment.num_envs=2", "algorithm.rollout_length=5"),
    *("exchange.kind=gradients", "exchange.codec=none", "exchange.entropy_coder=none", "algorithm.max_grad_norm=0"),
)


class Scene:
    """A learner that says what the test wants, and where the relay listens."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], bind: Address) -> None:
        self.context, self.bind = context, bind
        self.learner = Learner(context, settings_of(*SMALL))

    def welcome(self, **changed: Any) -> Hello:
        return self.learner.welcome(**({"parameters": self.learner.size, "codec": "none"} | changed))

    def actor(self, name: str = "a") -> Peer:
        """That has joined."""
        peer = Peer(self.context, self.bind)
        peer.join(hello_of(name, host="elsewhere"))
        return peer

    def send(self, peer: Peer, sequence: int, value: float, **changed: Any) -> None:
        """A gradient that has this value everywhere."""
        header = gradient_of(sequence, **({"model": self.learner.model, "steps": 10, "emulator_frames": 10} | changed))
        peer.say(header, np.full(self.learner.size, value, np.float32).tobytes())


@pytest.fixture
def relay(context: zmq.Context[zmq.Socket[bytes]]) -> Callable[..., int]:
    """Runs a relay while `script(scene)` runs beside it; the relay's exit code."""

    def one(script: Callable[[Scene], None], **given: Any) -> int:
        scene = Scene(context, free_address())
        where = LearnerEndpoint(scene.learner.address)
        return beside(lambda: script(scene), lambda: run(where, bind=scene.bind, keys=None, name="site", **given))

    return one


def test_it_needs_neither_torch_nor_an_environment() -> None:
    script = "import sys, relay.daemon; print(sorted({'gymnasium', 'torch'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_sums_go_up_and_weights_come_down_until_the_run_is_over(relay: Callable[..., int]) -> None:
    def script(scene: Scene) -> None:
        learner = scene.learner
        hello = scene.welcome()
        assert (hello.role, hello.name) == ("relay", "site") and "none" in hello.codecs
        assert learner.hear(SiteReport)[0].actors == 0
        first, second = scene.actor("a"), scene.actor("b")
        assert np.array_equal(first.weights, np.zeros(learner.size)) and first.welcome.seed != second.welcome.seed
        learner.hear(SiteReport, lambda report: report.actors == 2)
        scene.send(first, 1, 0.5)
        alone, body = learner.hear(Gradient)
        assert (alone.count, alone.summed) == (1, True)
        assert first.hear(Acknowledgement)[0].sequence == 1
        for sequence, value, peer in ((2, 1.0, first), (1, 2.0, second)):
            scene.send(peer, sequence, value)
            answer = peer.hear(Acknowledgement)[0]
            assert (answer.sequence, answer.verdict) == (sequence, "applied"), "in the sum, which waits for credit"
        learner.acknowledge(alone)
        both, body = learner.hear(Gradient, lambda one: one.sequence == 2)
        assert both.count == 2 and set(np.frombuffer(body or b"", np.float32)) == {3.0}
        listen = sockets.subscriber(scene.context, str(scene.bind.with_port(first.welcome.weights_port)), 2**20)
        try:
            version = 0
            while not listen.poll(100):  # until it has subscribed
                version += 1
                learner.publish(version)
            assert Broadcast.unpack(listen.recv()).version <= version
        finally:
            listen.close(linger=0)
        learner.say(Stop(reason="enough", final=True))
        for peer in (first, second):
            assert peer.hear(Stop)[0].final
            peer.say(Goodbye(reason="enough"))
        learner.hear(Goodbye)

    assert relay(script) == 0


def test_a_learner_that_comes_back_has_it_again_and_its_actors_are_told(relay: Callable[..., int]) -> None:
    def script(scene: Scene) -> None:
        scene.welcome()
        actor = scene.actor()
        scene.learner.hear(SiteReport)
        scene.learner.say(Stop(reason="back soon", final=False))
        scene.welcome(epoch=2)
        assert not actor.hear(Stop)[0].final
        actor.join(hello_of("a", host="elsewhere"))
        assert actor.welcome.epoch == 2
        scene.send(actor, 1, 1.0)
        assert actor.hear(Refused)[0].code == "unknown", "of the epoch before"
        actor.join(hello_of("a", host="elsewhere"))
        scene.send(actor, 2, 1.0, epoch=2)
        assert scene.learner.hear(Gradient)[0].epoch == 2
        interrupt()

    assert relay(script) == 143


def test_a_run_of_another_network_has_other_bounds_and_the_actors_come_back(relay: Callable[..., int]) -> None:
    def script(scene: Scene) -> None:
        scene.welcome()
        actor = scene.actor()
        scene.learner.say(Stop(reason="back soon", final=False))
        scene.welcome(epoch=2, parameters=100 * scene.learner.size)
        while True:  # the port is opened anew, and the connection with it
            actor.say(hello_of("a", host="elsewhere"))
            if actor.dealer.poll(1000):
                message, _ = actor.hear(Welcome)
                if message.epoch == 2:
                    break
        interrupt()

    assert relay(script) == 143


def test_bytes_of_any_kind_and_other_roles_do_not_end_it(
    relay: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    def script(scene: Scene) -> None:
        scene.welcome()
        stranger = Peer(scene.context, scene.bind)
        stranger.dealer.send_multipart([b"\xc1", b"", b"x"])
        watcher = Peer(scene.context, scene.bind)
        watcher.say(hello_of("w", "observer"))
        assert watcher.hear(Refused)[0].code == "role"
        watcher.say(Inspect())
        assert watcher.hear(Refused)[0].code == "unknown"
        actor = scene.actor()
        scene.send(actor, 1, float("nan"))
        assert actor.hear(Acknowledgement)[0].verdict == "refused"
        scene.send(actor, 2, 1.0)
        assert actor.hear(Acknowledgement)[0].verdict == "applied"
        heartbeat, _ = scene.learner.hear(Heartbeat, lambda one: one.last_error)
        assert "not finite" in heartbeat.last_error
        interrupt()

    assert relay(script) == 143
    assert "a peer sent bytes that are no message" in caplog.text


def test_it_tells_its_actors_when_it_is_stopped(relay: Callable[..., int]) -> None:
    def script(scene: Scene) -> None:
        scene.welcome()
        actor = scene.actor()
        interrupt()
        assert not actor.hear(Stop)[0].final
        assert "stopped" in scene.learner.hear(Goodbye)[0].reason

    assert relay(script) == 143


def test_actors_that_say_no_goodbye_are_not_waited_for_without_end(
    relay: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "REMIND_SECONDS", 0.05)
    monkeypatch.setattr(daemon, "DISMISS_SECONDS", 0.3)

    def script(scene: Scene) -> None:
        scene.welcome()
        actor = scene.actor()
        scene.learner.hear(SiteReport)
        scene.learner.say(Stop(reason="enough", final=True))
        assert actor.hear(Stop)[0].final
        assert actor.hear(Stop)[0].final, "it is told again"

    assert relay(script) == 0


def test_a_run_without_gradients_ends_it(relay: Callable[..., int]) -> None:
    def script(scene: Scene) -> None:
        scene.learner.hear(Hello)
        scene.learner.say(Refused(code="relay", reason="this run's actors send none"))

    with pytest.raises(RefusedError, match="this run's actors send none") as caught:
        relay(script)
    assert caught.value.exit_code == 78


def test_it_waits_no_longer_than_it_is_told_to(relay: Callable[..., int]) -> None:
    with pytest.raises(UnavailableError, match=r"no learner let this relay in for 0\.1 s"):
        relay(lambda scene: None, wait=0.1)


def test_a_port_that_is_taken_is_told(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    listeners = sockets.reserve_pair(Address("127.0.0.1", 0))
    taken = Address("127.0.0.1", listeners[0].getsockname()[1])
    try:
        with pytest.raises(UnavailableError, match="--bind"):
            run(LearnerEndpoint(Address("127.0.0.1", 1)), bind=taken, keys=None)
    finally:
        for listener in listeners:
            listener.close()


def test_without_keys_it_says_what_that_means_where_others_reach_it(
    context: zmq.Context[zmq.Socket[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(UnavailableError):
        run(LearnerEndpoint(Address("127.0.0.1", 1)), bind=Address("*", 0), keys=None, wait=0.05)
    assert "without keys: whoever reaches" in caplog.text
