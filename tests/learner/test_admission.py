from __future__ import annotations

import msgspec
import pytest

from common.host.security.allowed import ROLES, USUAL_ROLES
from common.wire.frames import pack, unpack
from common.wire.messages import Acknowledgement, Goodbye, Heartbeat, Pull, Refused, Save, Welcome
from learner.core import LearnerCore
from learner.effects import Disconnect, Send
from learner.run_stats import Counters
from tests.helpers.run import CODEC, MODEL, body_of, gradient_of, hello_of, learner_of, logged, sent

BODY = b"gradient"


def test_an_actor_is_told_everything_it_needs_and_given_the_weights() -> None:
    core, _ = learner_of("seed=3", "exchange.credit=2", counters=Counters(version=7))
    effects = core.handle(0.0, b"x", hello_of("x", launcher="gpu-box"), None)
    (send,) = [effect for effect in effects if isinstance(effect, Send)]
    assert send.body == body_of(7)
    (welcome,) = sent(effects, Welcome, b"x")
    assert (welcome.run, welcome.epoch, welcome.version, welcome.credit) == ("a-run", 1, 7, 2)
    assert (welcome.codec, welcome.model, welcome.weights_port, welcome.weights_format) == (CODEC, MODEL, 5556, "fp32")
    assert welcome.settings == msgspec.to_builtins(core.run.spec.settings)
    assert welcome.actors == 1
    assert unpack(pack(welcome)) == welcome
    assert logged(effects) == ["info: actor x on lab joined (by gpu-box)"]
    assert core.run.stats.counters.weight_bytes == len(body_of(7))


def test_every_actor_has_a_seed_of_its_own_and_keeps_it_when_it_says_hello_again() -> None:
    core, _ = learner_of("seed=3")
    seeds = [
        sent(core.handle(0.0, name, hello_of(name.decode()), None), Welcome)[0].seed for name in (b"x", b"y", b"z")
    ]
    assert len(set(seeds)) == 3
    again = core.handle(1.0, b"y", hello_of("y"), None)
    assert sent(again, Welcome)[0].seed == seeds[1]
    assert logged(again) == []
    other, _ = learner_of("seed=4")
    assert sent(other.handle(0.0, b"x", hello_of("x"), None), Welcome)[0].seed not in seeds


@pytest.mark.parametrize("role", ["launcher", "observer", "operator"])
def test_others_than_actors_get_no_weights(role: str) -> None:
    core, _ = learner_of()
    effects = core.handle(0.0, b"x", hello_of("x", role), None, address="127.0.0.1")
    (send,) = [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Welcome)]
    assert send.body is None
    assert core.run.peers.actors == 0
    assert bool(logged(effects)) == (role == "launcher")
    (refused,) = sent(core.handle(0.0, b"x", Pull(version=0), None), Refused)
    assert refused.code == "role"
    (refused,) = sent(core.handle(0.0, b"x", gradient_of(), BODY), Refused)
    assert refused.code == "role"


def test_an_actor_is_near_by_its_host_and_its_address() -> None:
    core, _ = learner_of()
    here = core.run.spec.host
    for name, host, address in (("a", here, "127.0.0.1"), ("b", here, "10.0.0.1"), ("c", "tunnel", "::1")):
        core.handle(0.0, name.encode(), hello_of(name, host=host), None, address=address)
    near = [peer.hello.name for _, peer in core.run.peers.role("actor") if peer.near]
    assert (near, core.run.peers.near_senders) == (["a"], 1)


def test_an_actor_without_a_common_codec_is_refused_and_not_let_in() -> None:
    core, _ = learner_of()
    effects = core.handle(0.0, b"x", hello_of("x", codecs=["morse"]), None)
    (refused,) = sent(effects, Refused, b"x")
    assert (refused.code, core.run.peers.actors) == ("codec", 0)
    assert "x: no common codec" in logged(effects)[0]


def test_a_key_may_be_what_the_list_says_and_nothing_else() -> None:
    core, _ = learner_of()
    core.run.peers.key_roles = {"screen": ("observer",), "lab": ("actor", "launcher")}
    for name, role in (("screen", "observer"), ("lab/1", "actor"), ("lab/2", "launcher")):
        (welcome,) = sent(core.handle(0.0, name.encode(), hello_of(name, role), None, name.partition("/")[0]), Welcome)
        assert welcome.run == "a-run"
    for name, role in (("screen/1", "actor"), ("lab/3", "observer"), ("cut-off", "relay")):
        effects = core.handle(0.0, b"x", hello_of(name, role), None, name.partition("/")[0])
        (refused,) = sent(effects, Refused)
        assert (refused.code, f"not {role}" in refused.reason) == ("role", True)
    assert core.run.peers.get(b"x") is None


def let_in(core: LearnerCore, key_name: str = "", address: str = "") -> str:
    """The answer to an operator's hello."""
    name = f"{key_name}/1" if key_name else "boss"
    effects = core.handle(0.0, b"o", hello_of(name, "operator"), None, key_name, address)
    if sent(effects, Welcome):
        return "welcome"
    (refused,) = sent(effects, Refused)
    assert core.run.peers.get(b"o") is None and refused.code == "role" and len(logged(effects)) == 1
    return refused.reason


def test_with_keys_an_operator_is_who_is_written_to_be_one() -> None:
    core, _ = learner_of()
    core.run.peers.key_roles = {
        "lab": USUAL_ROLES,
        "screen": ("observer",),
        "boss": ("operator",),
        "learner": ROLES,
    }
    assert [let_in(core, one) for one in ("boss", "learner")] == ["welcome", "welcome"]
    core.run.peers.leave(b"o")
    for one in ("lab", "screen", "gone"):
        assert f"`a3cd keys allow KEY --name {one} --role operator`" in let_in(core, one, "127.0.0.1")
    (refused,) = sent(core.handle(0.0, b"o", hello_of("boss/1", "actor"), None, "boss"), Refused)
    assert "may be operator, not actor" in refused.reason


@pytest.mark.parametrize("address", ["10.0.0.7", "fe80::1", "192.168.0.1", "", "localhost.evil.example"])
def test_without_keys_an_operator_is_who_is_on_the_learners_host(address: str) -> None:
    core, _ = learner_of()
    assert "this learner has no keys" in let_in(core, address=address)
    assert "--role operator" in let_in(core, address=address)
    assert [let_in(core, address=here) for here in ("127.0.0.1", "::1", "127.0.0.53")] == ["welcome"] * 3


def test_an_operator_is_asked_again_when_it_comes_from_elsewhere() -> None:
    core, _ = learner_of()
    hello = hello_of("boss", "operator")
    assert sent(core.handle(0.0, b"here", hello, None, address="127.0.0.1"), Welcome)
    assert sent(core.handle(0.0, b"there", hello, None, address="10.0.0.7"), Refused)[0].code == "role"
    (refused,) = sent(core.handle(0.0, b"there", Save(), None, address="10.0.0.7"), Refused)
    assert refused.code == "unknown"


def test_goodbye_is_told_with_its_reason() -> None:
    core, _ = learner_of()
    core.handle(0.0, b"x", hello_of("x"), None)
    assert logged(core.handle(1.0, b"x", Goodbye(reason="stopped by a signal"), None)) == [
        "info: actor x left: stopped by a signal"
    ]
    core.handle(1.0, b"o", hello_of("o", "observer"), None)
    assert core.handle(1.0, b"o", Goodbye(reason="seen enough"), None) == []
    assert core.run.peers.actors == 0


def test_an_actor_that_its_launcher_started_anew_is_counted_once() -> None:
    core, _ = learner_of()
    core.handle(0.0, b"x1", hello_of("box-0", launcher="box"), None)
    effects = core.handle(3.0, b"x2", hello_of("box-0", launcher="box", incarnation="successor"), None)
    assert logged(effects) == [
        "info: actor box-0 was started again: the one before is removed",
        "info: actor box-0 on lab joined (by box)",
    ]
    assert (core.run.peers.actors, core.run.stats.counters.actors_peak) == (1, 1)
    assert sent(effects, Welcome, b"x2")[0].actors == 1


def test_a_process_that_connects_anew_is_one_peer_and_its_old_connection_is_ended() -> None:
    core, _ = learner_of()
    core.handle(0.0, b"x", hello_of("x"), None)
    core.handle(1.0, b"x", gradient_of(), BODY)
    (refused,) = sent(core.handle(2.0, b"again", Heartbeat(), None), Refused, b"again")
    assert refused.code == "unknown"
    effects = core.handle(2.0, b"again", hello_of("x"), None)
    assert [effect for effect in effects if isinstance(effect, Disconnect)] == [Disconnect(b"x")]
    assert sent(effects, Welcome, b"again") and not logged(effects)
    assert [(peer.name, peer.gradients) for peer in core.run.status(2.0).actors] == [("x", 1)]
    assert sent(core.handle(2.0, b"again", gradient_of(), BODY), Acknowledgement)[0].verdict == "duplicate"


GRADIENTS = "exchange.kind=gradients"


def test_a_relay_is_told_what_an_actor_is_and_what_it_cannot_know_without_the_network() -> None:
    core, _ = learner_of(GRADIENTS, counters=Counters(version=7), longest=500)
    effects = core.handle(0.0, b"r", hello_of("r", "relay"), None)
    (send,) = [effect for effect in effects if isinstance(effect, Send)]
    (welcome,) = sent(effects, Welcome)
    assert send.body == body_of(7)
    assert (welcome.codec, welcome.credit, welcome.weights_port) == (CODEC, 1, 5556)
    assert (welcome.parameters, welcome.counted, welcome.longest_episode) == (2, 0, 500)
    (actor,) = sent(core.handle(0.0, b"a", hello_of("a"), None), Welcome)
    assert (actor.parameters, actor.counted, actor.longest_episode, actor.relay) == (0, 0, 0, "")
    assert logged(effects) == ["info: relay r on lab joined"]


def test_a_run_whose_gradients_cannot_be_added_up_takes_no_relay() -> None:
    core, _ = learner_of("exchange.kind=trajectories", "algorithm.kind=vtrace")
    effects = core.handle(0.0, b"r", hello_of("r", "relay"), None)
    (refused,) = sent(effects, Refused)
    assert refused.code == "relay" and 'exchange.kind = "trajectories"' in refused.reason
    assert core.run.peers.senders == 0


def test_a_key_is_a_relay_s_only_where_the_list_says_so() -> None:
    core, _ = learner_of(GRADIENTS)
    core.run.peers.key_roles = {"site": USUAL_ROLES, "hub": ("relay",)}
    (refused,) = sent(core.handle(0.0, b"r", hello_of("site", "relay"), None, "site"), Refused)
    assert refused.code == "role"
    assert sent(core.handle(0.0, b"h", hello_of("hub", "relay"), None, "hub"), Welcome)
    assert [one.code for one in sent(core.handle(0.0, b"a", hello_of("hub/a"), None, "hub"), Refused)] == ["role"]
