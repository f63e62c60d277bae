from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actor.core import PULL_SECONDS, RESEND_SECONDS, ActorCore
from actor.effects import Leave, Prepare, Warn
from actor.failure_rule import FAILURES_IN_A_ROW
from actor.outbox import UNSENT_SECONDS, Send
from common.errors import UnavailableError
from common.rl.episode import Episode
from common.settings.sections import Settings
from common.wire.messages import (
    Act,
    Goodbye,
    Heartbeat,
    Hello,
    Observe,
    Pull,
    Refused,
    Stop,
    Trajectory,
    Weights,
)
from tests.helpers.noting_player import (
    BODY,
    NotingPlayer,
    again,
    answer,
    contribution,
    gradients,
    member,
    messages,
    news,
    play,
    player_of,
)
from tests.helpers.run import MODEL, hello_of, welcome_of


def test_hello_is_said_at_once_and_ever_more_slowly_until_it_is_answered() -> None:
    core = ActorCore(hello_of("x"), 0.0)
    assert core.state == "joining"
    said = [now for now in (0.0, 0.5, 0.99, 1.0, 1.5, 2.0, 3.0) if messages(core.tick(now))]
    assert said == [0.0, 1.0, 3.0]
    assert core.deadline == 7.0
    effects = core.handle(3.1, welcome_of(settings={}), BODY)
    assert effects == [Prepare(welcome_of(settings={}), Settings(), BODY)]
    assert (core.state, core.version, core.membership.welcome) == ("working", 10, welcome_of(settings={}))


def test_the_end_of_the_run_lets_the_actor_go_and_a_pause_makes_it_wait_for_the_learner() -> None:
    core = member()
    assert core.handle(1.0, Stop(reason="reached", final=True), None) == [
        Send(Goodbye(reason="reached")),
        Leave("reached"),
    ]
    core = member()
    assert core.handle(1.0, Stop(reason="paused", final=False), None) == []
    assert core.state == "joining"
    assert isinstance(messages(core.tick(1.0))[0], Hello)


def test_it_is_ready_to_play_when_its_player_is_and_something_is_to_be_played(monkeypatch: pytest.MonkeyPatch) -> None:
    core = ActorCore(hello_of("x"), 0.0)
    core.handle(0.0, welcome_of(settings={}), BODY)
    assert not core.ready, "no player"
    core = member(accumulate=1)
    assert core.ready
    play(core, 1.0)
    play(core, 2.0)
    assert (core.state, core.ready) == ("waiting", False)
    core.handle(3.0, answer(1), None)
    assert core.ready
    monkeypatch.setattr(NotingPlayer, "ready", False)
    assert not core.ready


def test_a_silent_learner_is_lost_after_its_expiry() -> None:
    core = member()
    core.tick(29.0)
    assert core.state == "working"
    core.tick(30.1)
    assert core.state == "joining"


def test_a_failure_restarts_the_player_and_the_next_heartbeat_names_it_once() -> None:
    core = member()
    core.tick(0.0)
    assert core.failed(1.0, UnavailableError("a reward was NaN")) == [Warn("a reward was NaN")]
    assert player_of(core).restarted == 1
    beats = [message for now in (1.9, 2.0, 4.0) for message in messages(core.tick(now))]
    assert ["a reward was NaN" in str(beat) for beat in beats] == [True, False]


def test_failures_in_a_row_end_it_and_a_complete_rollout_ends_the_row() -> None:
    core, error = member(), UnavailableError("it broke")
    for rows in range(2):
        for number in range(FAILURES_IN_A_ROW - 1):
            core.failed(100.0 * rows + number, error)
        play(core, 50.0)
    for number in range(FAILURES_IN_A_ROW - 1):
        core.failed(300.0 + number, error)
    with pytest.raises(UnavailableError, match="gave up after 10 failures in a row: it broke"):
        core.failed(400.0, error)


def test_a_gradient_leaves_at_once_with_what_belongs_to_it() -> None:
    core = member()
    moments = [(20, [0.5], [1.0])]
    episodes = [Episode(5.0, 9, 0.1)]
    (send,) = play(core, 1.0, episodes=episodes, statistics={"entropy": 0.5}, moments=moments)
    assert isinstance(send, Send) and (send.body, send.wait) == (b"1 packed", False)
    header = contribution([send])
    assert (header.run, header.epoch, header.sequence, header.version) == ("a-run", 1, 1, 10)
    assert (header.model, header.codec, header.steps, header.emulator_frames) == (MODEL, "none", 20, 80)
    assert (header.count, header.episodes, header.statistics) == (1, episodes, {"entropy": 0.5})
    assert header.moments == moments


def test_the_header_is_that_of_the_player_s_contribution(monkeypatch: pytest.MonkeyPatch) -> None:
    core = member()
    monkeypatch.setattr(NotingPlayer, "contribution", Trajectory)
    (header,) = messages(play(core, 1.0, episodes=[Episode(9.0, 20, 0.5)]))
    assert isinstance(header, Trajectory)
    assert (header.version, header.steps, header.episodes) == (10, 20, [Episode(9.0, 20, 0.5)])


def test_an_actor_that_waits_for_each_answer_plays_on_only_when_it_has_come() -> None:
    core = member(policy="synchronous")
    assert core.state == "working"
    play(core, 1.0)
    assert core.state == "waiting"
    assert core.handle(2.0, Weights(version=11, epoch=1), BODY) == []
    assert core.state == "waiting"
    assert core.handle(2.0, answer(1, 11), None) == []
    assert core.state == "working"
    assert player_of(core).loaded == [(11, BODY, False)]


def test_without_credit_rollouts_are_accumulated_and_then_the_actor_waits() -> None:
    core = member(accumulate=2)
    play(core, 1.0)
    assert play(core, 2.0, 11, statistics={"entropy": 1.0}) == []
    assert core.state == "working"
    assert play(core, 3.0, 12, statistics={"entropy": 2.0}) == []
    assert core.state == "waiting"
    header = contribution(core.handle(4.0, answer(1), None))
    assert (header.sequence, header.version, header.count, header.steps) == (2, 11, 2, 40)
    assert header.statistics == {"entropy": 1.5}
    assert core.state == "working"


@pytest.mark.parametrize("credit", [1, 2, 3])
def test_no_more_leave_than_credit_allows(credit: int) -> None:
    core = member(accumulate=64, credit=credit)
    sent = [bool(play(core, 1.0)) for _ in range(6)]
    assert sent == [number < credit for number in range(6)]


def test_without_a_limit_on_credit_all_leave_and_none_is_kept() -> None:
    core = member(credit=0)
    sends = [play(core, 1.0) for _ in range(50)]
    assert all(isinstance(send, Send) and send.wait for (send,) in sends)
    assert player_of(core).numbers == [None] * 50, "nobody will say what became of them"
    assert [type(message) for message in messages(core.tick(RESEND_SECONDS + 2.0))] == [Heartbeat]


@pytest.mark.parametrize("verdict", ["applied", "stale", "refused", "duplicate"])
def test_any_verdict_is_an_answer_and_a_second_one_is_nothing(verdict: str) -> None:
    core = member()
    play(core, 1.0)
    core.handle(2.0, answer(1, verdict=verdict), None)
    assert len(core.outbox) == 0
    assert core.handle(2.0, answer(1, verdict=verdict), None) == []
    assert core.handle(2.0, answer(77), None) == []
    assert player_of(core).answers == [(1, verdict in ("stale", "refused"))]


def test_an_unanswered_contribution_is_sent_again_under_its_number() -> None:
    core = member(credit=2)
    first, second = play(core, 1.0), play(core, 5.0)
    core.tick(10.9)
    assert core.deadline == pytest.approx(1.0 + RESEND_SECONDS)
    assert first[0] in core.tick(11.0)
    assert gradients(core.tick(12.0)) == []
    core.handle(12.0, answer(1, credit=2), None)
    assert gradients(core.tick(21.0)) == gradients(second)
    assert player_of(core).numbers == [1, 2], "nothing is packed twice"


def test_what_was_under_way_is_sent_again_at_once_on_a_new_connection() -> None:
    core = member()
    sent_first = gradients(play(core, 1.0))
    assert gradients(core.tick(1.5)) == []
    core.connected(1.6)
    assert messages(core.tick(1.6)) == [core.membership.hello], "the learner knows the new connection by its hello"
    assert gradients(core.handle(1.7, again(), BODY)) == sent_first


def test_what_could_not_be_sent_is_due_again_soon() -> None:
    core = member()
    (send,) = [effect for effect in play(core, 1.0) if isinstance(effect, Send)]
    core.unsent(1.0, send)
    assert gradients(core.tick(1.0 + UNSENT_SECONDS)) == gradients([send])
    core.unsent(3.0, Send(Heartbeat()))
    assert gradients(core.tick(3.0 + UNSENT_SECONDS)) == []


def test_while_the_learner_is_away_nothing_is_due_but_hello() -> None:
    core = member()
    play(core, 1.0)
    core.membership.lost(20.0)
    for now, due in ((20.0, 21.0), (21.0, 23.0), (23.0, 27.0)):
        assert messages(core.tick(now)) == [core.membership.hello]
        assert core.deadline == due, "a deadline that has passed would make the daemon spin"


def test_after_a_lost_connection_unanswered_messages_go_again_at_once_and_nothing_is_built_anew() -> None:
    core = member(accumulate=2)
    first = play(core, 1.0)
    play(core, 1.5)
    core.handle(2.0, Refused(code="unknown", reason="say hello first"), None)
    assert core.state == "joining"
    assert core.handle(3.0, again(version=12), BODY) == first
    assert player_of(core).loaded == [(12, BODY, False)]
    assert player_of(core).forgotten == 0
    assert contribution(core.handle(4.0, answer(1), None)).count == 1


def test_credit_that_came_back_while_it_was_away_is_used_when_it_is_in_again() -> None:
    core = member(accumulate=2)
    play(core, 1.0)
    play(core, 1.5)
    core.membership.lost(2.0)
    assert core.handle(2.5, answer(1), None) == []
    assert contribution(core.handle(3.0, again(), BODY)).sequence == 2


def test_without_weights_in_the_welcome_they_are_pulled_before_anything_is_played() -> None:
    core = ActorCore(hello_of("x"), 0.0)
    core.tick(0.0)
    pull, prepare = core.handle(1.0, welcome_of(settings={}), None)
    assert pull == Send(Pull(version=0, whole=True))
    assert isinstance(prepare, Prepare)
    core.player = NotingPlayer()
    assert core.state == "waiting"
    asked = [now for now in range(1, 30) if any(isinstance(one, Pull) for one in messages(core.tick(float(now))))]
    assert asked == [2, 4, 8, 16], "ever more slowly: they are under way, or wait for their turn"
    core.handle(29.0, again(settings={}), None)
    assert core.state == "waiting"
    assert core.handle(30.0, Weights(version=10, epoch=2), BODY) == []
    assert core.state == "waiting", "of another epoch"
    core.handle(31.0, Weights(version=10, epoch=1), BODY)
    assert (core.state, core.version, player_of(core).loaded) == ("working", 10, [(10, BODY, False)])


def test_a_second_welcome_brings_the_weights_that_the_first_lacked_in_whichever_version() -> None:
    core = ActorCore(hello_of("x"), 0.0)
    core.tick(0.0)
    core.handle(1.0, welcome_of(settings={}, version=0), None)
    core.player = NotingPlayer()
    core.handle(2.0, again(settings={}, version=0), BODY)
    assert (core.state, player_of(core).loaded) == ("working", [(0, BODY, False)])


def test_a_welcome_without_weights_to_one_that_has_them_changes_nothing() -> None:
    core = member()
    assert messages(core.handle(1.0, again(version=12), None)) == []
    assert (core.state, core.version, player_of(core).loaded) == ("working", 10, [])


def test_a_second_welcome_that_comes_late_brings_no_older_weights() -> None:
    core = member()
    core.broadcast(1.0, news(15))
    assert core.handle(2.0, again(version=12), BODY) == []
    assert core.version == 15
    assert player_of(core).loaded == [(15, BODY, False)]


@pytest.mark.parametrize("changed", [{"epoch": 2}, {"run": "another"}])
def test_a_new_epoch_drops_everything_of_the_old_and_loads_its_weights(changed: dict[str, Any]) -> None:
    core = member(accumulate=2)
    play(core, 1.0)
    play(core, 1.5)
    welcome = again(version=4, **changed)
    assert core.handle(2.0, welcome, BODY) == []
    assert (core.version, len(core.outbox)) == (4, 0)
    player = player_of(core)
    assert (player.forgotten, player.loaded, player.heard) == (1, [(4, BODY, False)], [welcome])
    header = contribution(play(core, 31.0, 4))
    assert (header.sequence, header.count) == (2, 1), "numbers go on"
    assert header.epoch == changed.get("epoch", 1)


def test_a_new_run_at_version_0_is_loaded_too() -> None:
    core = member(version=0)
    core.handle(2.0, again(run="another", version=0), BODY)
    assert player_of(core).loaded == [(0, BODY, False)]


@pytest.mark.parametrize(
    "changed",
    [{"settings": {"seed": 1}}, {"model": "other"}, {"codec": "fp16"}, {"weights_format": "fp16"}, {"weights_port": 1}],
)
def test_other_work_is_prepared_for_anew_and_nothing_of_the_old_is_sent(changed: dict[str, Any]) -> None:
    welcome = again(epoch=2, **changed)
    core = member()
    play(core, 1.0)
    play(core, 1.5)
    settings = msgspec.convert(welcome.settings, Settings)
    assert core.handle(2.0, welcome, BODY) == [Prepare(welcome, settings, BODY)]
    assert (player_of(core).pending, len(core.outbox)) == (0, 0)


def test_only_newer_weights_of_this_run_and_epoch_are_loaded() -> None:
    core = member()
    for frame in (news(12), news(12), news(11), news(13, run="another"), news(13, epoch=0)):
        assert core.broadcast(1.0, frame) == []
    for weights, body in ((Weights(version=13, epoch=0), BODY), (Weights(version=12, epoch=1), None)):
        assert core.handle(1.0, weights, body) == []
    assert player_of(core).loaded == [(12, BODY, False)]
    core.handle(1.0, Weights(version=13, epoch=1), BODY)
    assert player_of(core).loaded[1:] == [(13, BODY, False)]
    assert core.state == "working"
    assert ActorCore(hello_of("x"), 0.0).broadcast(1.0, news(13)) == []


def test_a_damaged_broadcast_changes_nothing_and_is_warned_of() -> None:
    core = member()
    (warning,) = core.broadcast(1.0, news(12)[:-1] + b"x")
    assert isinstance(warning, Warn) and "checksum" in warning.text
    assert (core.version, player_of(core).loaded) == (10, [])


def test_a_broadcast_of_a_newer_epoch_means_join_again() -> None:
    core = member()
    assert core.broadcast(1.0, news(3, epoch=2)) == []
    assert core.state == "joining"
    assert messages(core.tick(1.0)) == [core.membership.hello]


def test_weights_are_pulled_when_they_fall_behind_by_twice_the_actors() -> None:
    core = member(credit=2)
    play(core, 1.0)
    assert messages(core.handle(1.1, answer(1, version=14, credit=2), None)) == []
    play(core, 1.2)
    assert messages(core.handle(1.3, answer(2, version=15, credit=2), None)) == [Pull(version=10)]
    play(core, 1.4)
    assert messages(core.handle(1.5, answer(3, version=16, credit=2), None)) == [], "at most every second"
    assert Send(Pull(version=10)) in play(core, 1.3 + PULL_SECONDS)


def test_a_stale_gradient_asks_for_newer_weights_at_once() -> None:
    core = member()
    play(core, 1.0)
    assert messages(core.handle(1.1, answer(1, version=13, verdict="stale", actors=50), None)) == [Pull(version=10)]


def test_a_delta_that_the_player_cannot_take_is_no_version_and_whole_weights_are_pulled() -> None:
    core = member()
    assert core.broadcast(1.0, news(12, form="delta")) == []
    player_of(core).takes_deltas, player_of(core).whole = False, 10
    assert messages(core.broadcast(1.0, news(14, form="delta"))) == [Pull(version=10)]
    assert core.broadcast(1.1, news(15, form="delta")) == [], "pulled a moment ago"
    assert messages(core.broadcast(1.0 + PULL_SECONDS, news(16, form="delta"))) == [Pull(version=10)]
    assert core.version == 12
    core.handle(2.0, Weights(version=12, epoch=1), BODY)
    player_of(core).takes_deltas, player_of(core).whole = True, 12
    core.handle(2.0, Weights(version=17, epoch=1, delta=True), BODY)
    core.handle(2.0, Weights(version=12, epoch=1), BODY)
    assert player_of(core).loaded == [(12, BODY, True), (12, BODY, False), (17, BODY, True)]


def test_requests_for_actions_are_sent_at_once_and_again_and_actions_reach_the_player() -> None:
    core = member()
    request = Send(Observe(run="a-run", epoch=1, group=0, step=1), b"seen")
    core.tick(1.0)
    core.outbox.add(0, request, 2.0)
    assert core.advanced(1.0) == [request]
    assert (core.state, core.deadline) == ("working", 3.0)
    assert request in core.tick(3.0)
    act = Act(group=0, step=1)
    assert core.handle(3.0, act, b"good") == []
    (warning,) = core.handle(3.0, act, b"bad")
    assert warning == Warn("the learner sent an action beyond the last")
    assert player_of(core).heard == [act, act]


def test_messages_that_are_none_of_its_business_change_nothing() -> None:
    core = member()
    assert core.handle(1.0, Heartbeat(), None) == []
    assert core.handle(1.0, Goodbye(reason="?"), None) == []
    assert core.state == "working"


ERROR = UnavailableError("it broke")
