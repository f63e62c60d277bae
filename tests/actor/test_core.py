from __future__ import annotations

from typing import Any

import pytest

from actor.core import (
    PULL_SECONDS,
    RESEND_SECONDS,
    ActorCore,
    Effect,
    Forget,
    Leave,
    Load,
    Prepare,
    Reship,
    Send,
    Ship,
)
from actor.rollout_summary import Harvest
from common.errors import RefusedError, UnavailableError
from common.wire.bodies.broadcast import KEYFRAME, run_mark
from common.wire.messages import Acknowledgement, AnyMessage, Goodbye, Heartbeat, Hello, Pull, Refused, Stop, Weights
from tests.helpers.run import MODEL, hello_of, welcome_of

BODY = b"weights"


def member(accumulate: int = 2, **changed: Any) -> ActorCore:
    core = ActorCore(hello_of("x"), 0.0)
    core.tick(0.0)
    core.handle(0.0, welcome_of(**changed), BODY)
    core.configure(accumulate)
    return core


def rollout(version: int = 10, **changed: Any) -> Harvest:
    fields: dict[str, Any] = {"version": version, "steps": 20, "emulator_frames": 80, "count": 1}
    return Harvest(**(fields | changed))


def answer(sequence: int, version: int = 10, verdict: Any = "applied", **changed: Any) -> Acknowledgement:
    fields: dict[str, Any] = {"sequence": sequence, "version": version, "verdict": verdict, "credit": 1, "actors": 2}
    return Acknowledgement(**(fields | changed))


def messages(effects: list[Effect]) -> list[AnyMessage]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def test_hello_is_said_at_once_and_every_second_until_it_is_answered() -> None:
    core = ActorCore(hello_of("x"), 0.0)
    assert core.state == "joining"
    said = [now for now in (0.0, 0.5, 0.99, 1.0, 1.5, 2.0) if messages(core.tick(now))]
    assert said == [0.0, 1.0, 2.0]
    assert core.deadline == 3.0
    effects = core.handle(2.1, welcome_of(), BODY)
    assert effects == [Forget(0), Prepare(welcome_of(), BODY)]
    assert (core.state, core.version, core.welcome) == ("working", 10, welcome_of())


def test_a_refusal_for_good_is_raised_with_the_learner_s_reason() -> None:
    core = ActorCore(hello_of("x"), 0.0)
    with pytest.raises(RefusedError, match="protocol 1 is not 2"):
        core.handle(0.0, Refused(code="protocol", reason="protocol 1 is not 2"), None)
    with pytest.raises(UnavailableError, match="set aside"):
        member().handle(0.0, Refused(code="set-aside", reason="set aside"), None)


def test_the_end_of_the_run_lets_the_actor_go_and_a_pause_makes_it_wait_for_the_learner() -> None:
    core = member()
    assert core.handle(1.0, Stop(reason="reached", final=True), None) == [Leave("reached")]
    core = member()
    assert core.handle(1.0, Stop(reason="paused", final=False), None) == []
    assert core.state == "joining"
    assert isinstance(messages(core.tick(1.0))[0], Hello)


def test_leaving_says_goodbye() -> None:
    assert member().leave("a signal") == [Send(Goodbye(reason="a signal")), Leave("a signal")]


def test_a_silent_learner_is_lost_after_its_expiry() -> None:
    core = member()
    core.tick(29.0)
    assert core.state == "working"
    core.tick(30.1)
    assert core.state == "joining"


def test_heartbeats_carry_state_and_the_last_trouble_once() -> None:
    core = member()
    core.trouble = "a reward was NaN"
    assert messages(core.tick(0.0)) == [Heartbeat(state="working", trouble="a reward was NaN")]
    assert messages(core.tick(1.9)) == []
    assert messages(core.tick(2.0)) == [Heartbeat(state="working", trouble="")]


def test_a_gradient_leaves_at_once_with_what_belongs_to_it() -> None:
    core = member()
    moments = [(20, [0.5], [1.0])]
    (ship,) = core.harvested(1.0, rollout(episodes=[(5.0, 9, 0.1)], statistics={"entropy": 0.5}, moments=moments))
    assert isinstance(ship, Ship)
    header = ship.header
    assert (header.run, header.epoch, header.sequence, header.version) == ("a-run", 1, 1, 10)
    assert (header.model, header.codec, header.steps, header.emulator_frames) == (MODEL, "none", 20, 80)
    assert (header.count, header.episodes, header.statistics) == (1, [(5.0, 9, 0.1)], {"entropy": 0.5})
    assert header.moments == moments


def test_an_actor_that_waits_for_each_answer_plays_on_only_when_it_has_come() -> None:
    core = member(accumulate=0)
    assert core.state == "working"
    core.harvested(1.0, rollout())
    assert core.state == "waiting"
    assert core.handle(2.0, Weights(version=11, epoch=1), BODY) == [Load(11, BODY)]
    assert core.state == "waiting"
    assert core.handle(2.0, answer(1, 11), None) == [Forget(1)]
    assert core.state == "working"


def test_without_credit_rollouts_are_added_up_and_then_the_actor_waits() -> None:
    core = member(accumulate=2)
    core.harvested(1.0, rollout())
    assert core.harvested(2.0, rollout(11, episodes=[(1.0, 5, 0.1)], statistics={"entropy": 1.0})) == []
    assert core.state == "working"
    assert core.harvested(3.0, rollout(12, episodes=[(2.0, 6, 0.1)], statistics={"entropy": 2.0})) == []
    assert core.state == "waiting"
    effects = core.handle(4.0, answer(1), None)
    assert effects[0] == Forget(1)
    assert isinstance(effects[1], Ship)
    header = effects[1].header
    assert (header.sequence, header.version, header.count, header.steps) == (2, 11, 2, 40)
    assert (header.episodes, header.statistics) == ([(1.0, 5, 0.1), (2.0, 6, 0.1)], {"entropy": 1.5})
    assert core.state == "working"


def test_statistics_are_means_over_rollouts() -> None:
    harvest = rollout(statistics={"entropy": 1.0}, moments=[(20, [0.5], [1.0])])
    harvest.add(rollout(3, statistics={"entropy": 2.0}, moments=[(20, [0.75], [2.0])]))
    harvest.add(rollout(5, statistics={"entropy": 6.0}))
    assert (harvest.statistics, harvest.version, harvest.count) == ({"entropy": pytest.approx(3.0)}, 3, 3)
    assert harvest.moments == [(20, [0.5], [1.0]), (20, [0.75], [2.0])], "the learner merges them"


@pytest.mark.parametrize("credit", [1, 2, 3])
def test_no_more_leave_than_credit_allows(credit: int) -> None:
    core = member(accumulate=64, credit=credit)
    shipped = [bool(core.harvested(1.0, rollout())) for _ in range(6)]
    assert shipped == [number < credit for number in range(6)]


def test_without_a_limit_on_credit_all_leave_and_none_is_kept() -> None:
    core = member(credit=0)
    assert not core.keeps_unanswered
    assert all(core.harvested(1.0, rollout()) for _ in range(50))
    assert core.tick(RESEND_SECONDS + 2.0) == [Send(Heartbeat(state="working"))]


@pytest.mark.parametrize("verdict", ["applied", "stale", "refused", "duplicate"])
def test_any_verdict_is_an_answer_and_a_second_one_is_nothing(verdict: str) -> None:
    core = member()
    core.harvested(1.0, rollout())
    assert Forget(1, verdict in ("stale", "refused")) in core.handle(2.0, answer(1, verdict=verdict), None)
    assert core.handle(2.0, answer(1, verdict=verdict), None) == []
    assert core.handle(2.0, answer(77), None) == []


def test_what_nobody_answered_is_sent_again_under_its_number() -> None:
    core = member(credit=2)
    (first,) = core.harvested(1.0, rollout())
    (second,) = core.harvested(5.0, rollout())
    assert isinstance(first, Ship) and isinstance(second, Ship)
    core.tick(10.9)
    assert core.deadline == pytest.approx(1.0 + RESEND_SECONDS)
    assert Reship(first.header) in core.tick(11.0)
    assert not any(isinstance(effect, Reship) for effect in core.tick(12.0))
    core.handle(12.0, answer(1, credit=2), None)
    assert [effect for effect in core.tick(21.0) if isinstance(effect, Reship)] == [Reship(second.header)]


def test_while_the_learner_is_away_nothing_is_due_but_hello() -> None:
    core = member()
    core.harvested(1.0, rollout())
    core.membership.lost(20.0)
    for now in (20.0, 21.0, 22.0):
        assert messages(core.tick(now)) == [core.membership.hello]
        assert core.deadline == now + 1.0, "a deadline that has passed would make the daemon spin"


def test_after_a_lost_connection_what_may_be_lost_goes_again_at_once_and_nothing_is_built_anew() -> None:
    core = member(accumulate=2)
    (ship,) = core.harvested(1.0, rollout())
    core.harvested(1.5, rollout())
    assert isinstance(ship, Ship)
    core.handle(2.0, Refused(code="unknown", reason="say hello first"), None)
    assert core.state == "joining"
    assert core.handle(3.0, welcome_of(version=12), BODY) == [Reship(ship.header), Load(12, BODY)]
    (answered, shipped) = core.handle(4.0, answer(1), None)
    assert answered == Forget(1) and isinstance(shipped, Ship) and shipped.header.count == 1


def test_credit_that_came_back_while_it_was_away_is_used_when_it_is_in_again() -> None:
    core = member(accumulate=1)
    core.harvested(1.0, rollout())
    core.harvested(1.5, rollout())
    core.membership.lost(2.0)
    assert core.handle(2.5, answer(1), None) == [Forget(1)]
    effects = core.handle(3.0, welcome_of(), BODY)
    assert [type(effect) for effect in effects] == [Ship], "else one rollout too many would be added up"


def test_a_second_welcome_that_comes_late_brings_no_older_weights() -> None:
    core = member()
    core.broadcast(1.0, run_mark("a-run"), 1, 15, BODY)
    assert core.handle(2.0, welcome_of(version=12), BODY) == []
    assert core.version == 15


@pytest.mark.parametrize("changed", [{"epoch": 2}, {"run": "another"}])
def test_a_new_epoch_gives_up_all_that_belongs_to_the_old_and_loads_its_weights(changed: dict[str, Any]) -> None:
    core = member(accumulate=2)
    core.harvested(1.0, rollout())
    core.harvested(1.5, rollout())
    assert core.handle(2.0, welcome_of(version=4, **changed), BODY) == [Forget(0), Load(4, BODY)]
    assert core.version == 4
    assert not any(isinstance(effect, Reship) for effect in core.tick(30.0))
    (ship,) = core.harvested(31.0, rollout(4))
    assert isinstance(ship, Ship)
    assert (ship.header.sequence, ship.header.count) == (2, 1), "numbers go on; what was added up is gone"
    assert ship.header.epoch == changed.get("epoch", 1)


def test_a_new_run_at_version_0_is_loaded_too() -> None:
    core = member(version=0)
    assert core.handle(2.0, welcome_of(run="another", version=0), BODY) == [Forget(0), Load(0, BODY)]


@pytest.mark.parametrize(
    "changed",
    [{"settings": {"seed": 1}}, {"model": "other"}, {"codec": "fp16"}, {"weights_format": "fp16"}, {"weights_port": 1}],
)
def test_other_work_is_prepared_for_anew(changed: dict[str, Any]) -> None:
    welcome = welcome_of(epoch=2, **changed)
    assert member().handle(2.0, welcome, BODY) == [Forget(0), Prepare(welcome, BODY)]


def test_only_newer_weights_of_this_run_and_epoch_are_loaded() -> None:
    core = member()
    mark = run_mark("a-run")
    assert core.broadcast(1.0, mark, 1, 12, BODY) == [Load(12, BODY)]
    assert core.broadcast(1.0, mark, 1, 12, BODY) == core.broadcast(1.0, mark, 1, 11, BODY) == []
    assert core.broadcast(1.0, run_mark("another"), 1, 13, BODY) == []
    assert core.broadcast(1.0, mark, 0, 13, BODY) == []
    assert core.handle(1.0, Weights(version=13, epoch=0), BODY) == []
    assert core.handle(1.0, Weights(version=12, epoch=1), None) == []
    assert core.handle(1.0, Weights(version=13, epoch=1), BODY) == [Load(13, BODY)]
    assert core.state == "working"
    assert ActorCore(hello_of("x"), 0.0).broadcast(1.0, mark, 1, 13, BODY) == []


def test_a_broadcast_of_a_newer_epoch_means_join_again() -> None:
    core = member()
    assert core.broadcast(1.0, run_mark("a-run"), 2, 3, BODY) == []
    assert core.state == "joining"
    assert messages(core.tick(1.0)) == [core.membership.hello]


def test_weights_are_pulled_when_they_fall_behind_by_twice_the_actors() -> None:
    core = member(credit=2)
    core.harvested(1.0, rollout())
    assert messages(core.handle(1.1, answer(1, version=14, credit=2), None)) == []
    core.harvested(1.2, rollout())
    assert messages(core.handle(1.3, answer(2, version=15, credit=2), None)) == [Pull(version=10)]
    core.harvested(1.4, rollout())
    assert messages(core.handle(1.5, answer(3, version=16, credit=2), None)) == [], "at most every second"
    assert Send(Pull(version=10)) in core.harvested(1.3 + PULL_SECONDS, rollout())


def test_a_stale_gradient_asks_for_newer_weights_at_once() -> None:
    core = member()
    core.harvested(1.0, rollout())
    assert messages(core.handle(1.1, answer(1, version=13, verdict="stale", actors=50), None)) == [Pull(version=10)]


def test_messages_that_are_none_of_its_business_change_nothing() -> None:
    core = member()
    assert core.handle(1.0, Heartbeat(), None) == []
    assert core.handle(1.0, Goodbye(reason="?"), None) == []
    assert core.state == "working"


def test_a_delta_is_loaded_if_its_keyframe_is_there_and_else_both_are_pulled() -> None:
    core, mark = member(version=10), run_mark("a-run")

    def news(now: float, version: int, keyframe: int) -> list[Effect]:
        return core.broadcast(now, mark, 1, version, KEYFRAME.pack(keyframe) + b"x", delta=True)

    assert news(1.0, 12, 10) == [Load(12, KEYFRAME.pack(10) + b"x", delta=True)]
    assert messages(news(1.0, 14, 13)) == [Pull(version=12)]
    assert news(1.1, 15, 13) == [], "pulled a moment ago"
    assert messages(news(1.0 + PULL_SECONDS, 16, 13)) == [Pull(version=12)]
    assert core.handle(2.0, Weights(version=13, epoch=1), BODY) == [Load(13, BODY)]
    body = KEYFRAME.pack(13) + b"y"
    assert core.handle(2.0, Weights(version=17, epoch=1, delta=True), body) == [Load(17, body, delta=True)]
    assert news(2.0, 18, 10) == [], "of a keyframe that is no more, and pulled a moment ago"


def test_a_delta_too_short_to_name_a_keyframe_is_not_loaded() -> None:
    core = member(version=10)
    for body in (b"", bytes(7)):
        assert messages(core.broadcast(1.0, run_mark("a-run"), 1, 12, body, delta=True)) in ([Pull(version=10)], [])
    assert core.version == 10


def test_keyframes_of_the_epoch_before_are_none() -> None:
    core = member(version=10)
    core.handle(1.0, welcome_of(version=4, epoch=2), BODY)
    body = KEYFRAME.pack(10) + b"x"
    assert messages(core.broadcast(1.0, run_mark("a-run"), 2, 12, body, delta=True)) == [Pull(version=4)]
