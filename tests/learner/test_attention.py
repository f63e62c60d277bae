from __future__ import annotations

from common.wire.messages import Heartbeat, Refused
from learner.attention import STALL_SECONDS, Attention
from learner.core import LearnerCore
from tests.helpers.run import attend, gradient_of, hello_of, learner_of, logged, sent


def learner_with(*names: str) -> LearnerCore:
    """Actors that are taken for gone after 30 s."""
    core, _ = learner_of("exchange.expiry_seconds=30", "exchange.heartbeat_seconds=2")
    for name in names:
        core.handle(0.0, name.encode(), hello_of(name), None)
        core.handle(0.0, name.encode(), Heartbeat(state="working"), None)
    return core


def test_short_pauses_are_none() -> None:
    attention = Attention(10.0)
    assert attention.look(10.0 + STALL_SECONDS / 2, True) == 0.0
    assert attention.look(10.0 + STALL_SECONDS * 2, True) == STALL_SECONDS * 1.5


def test_who_is_silent_for_too_long_is_removed_and_told_so_when_it_speaks_again() -> None:
    core = learner_with("silent", "speaks")
    core.handle(20.0, b"speaks", Heartbeat(), None)
    assert logged(attend(core, 0.0, 30.0)) == []
    assert logged(core.tick(31.0)) == ["warning: actor silent has been silent for 30 s: it is removed"]
    assert core.run.peers.actors == 1
    (refused,) = sent(core.handle(32.0, b"silent", gradient_of(), b"gradient"), Refused)
    assert refused.code == "unknown"


def test_a_worker_that_still_makes_its_environments_may_be_silent_for_longer() -> None:
    core, _ = learner_of("exchange.expiry_seconds=30", "evaluation.episodes=5")
    for role in ("actor", "evaluator", "launcher"):
        core.handle(0.0, role.encode(), hello_of(role, role), None)
    assert logged(attend(core, 0.0, 300.0)) == ["warning: launcher launcher has been silent for 30 s: it is removed"]
    assert sorted(logged(core.tick(301.0))) == [
        "warning: actor actor has been silent for 300 s: it is removed",
        "warning: evaluator evaluator has been silent for 300 s: it is removed",
    ]


def test_a_learner_that_stood_still_removes_nobody_for_it() -> None:
    core = learner_with("speaks", "silent")
    attend(core, 0.0, 10.0)
    (line,) = logged(core.tick(100.0))
    assert line.startswith("warning: the learner stood still for 90 s") and core.run.peers.actors == 2
    assert core.run.status(100.0).warnings == [line.removeprefix("warning: ")]
    assert [actor.seen for actor in core.run.status(100.0).actors] == [10.0, 10.0]
    core.handle(101.0, b"speaks", Heartbeat(), None)
    assert logged(attend(core, 101.0, 120.0)) == [], "30 s in which it was listened to are not over"
    assert logged(core.tick(121.0)) == ["warning: actor silent has been silent for 30 s: it is removed"]


def test_who_was_read_first_after_a_standstill_was_heard_then_and_not_later() -> None:
    core = learner_with("x")
    core.handle(99.0, b"x", Heartbeat(), None)
    core.tick(100.0)
    assert [actor.seen for actor in core.run.status(100.0).actors] == [0.0]


def test_nobody_is_silent_while_messages_wait_to_be_read_unless_they_always_do() -> None:
    core = learner_with("x", "y")
    attend(core, 0.0, 25.0)
    assert logged(attend(core, 26.0, 50.0, heard_all=False)) == []
    core.handle(50.5, b"x", Heartbeat(), None)
    assert logged(core.tick(51.0)) == ["warning: actor y has been silent for 30 s: it is removed"]
    core.handle(52.0, b"x", Heartbeat(), None)
    assert logged(attend(core, 52.0, 90.0, heard_all=False)) == [
        "warning: actor x has been silent for 30 s: it is removed"
    ], "a learner with too much to do"


def test_a_learner_that_seldom_has_read_everything_still_sees_who_was_silent_before_it_last_had() -> None:
    core = learner_with("silent", "speaks")
    said = []
    for second in range(1, 60):
        core.handle(float(second), b"speaks", Heartbeat(), None)
        said += logged(core.tick(float(second), heard_all=False))  # the search for silent peers
        said += logged(core.tick(second + 0.4, heard_all=True))  # none is due here
    assert said == ["warning: actor silent has been silent for 30 s: it is removed"]
