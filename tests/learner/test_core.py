from __future__ import annotations

import math
from itertools import pairwise

import msgspec
import pytest

from common.errors import ProtocolError, WireError
from common.host.load import Load
from common.run.status import RunStatus
from common.wire.frames import pack, unpack
from common.wire.messages import (
    Acknowledgement,
    FleetReport,
    Goodbye,
    Heartbeat,
    Inspect,
    Pull,
    Refused,
    SiteReport,
    Status,
    Stop,
    Weights,
)
from learner.core import LearnerCore
from learner.effects import Disconnect, Effect, Finish, Publish, SaveCheckpoint, Send, WriteMetrics
from learner.exclusion import BAD_IN_A_ROW
from learner.host_look import HostLook
from learner.run_stats import Counters
from tests.helpers.run import BAD, CODEC, MODEL, gradient_of, hello_of, learner_of, logged, sent

BODY = b"gradient"


def joined(core: LearnerCore, *names: str, now: float = 0.0) -> None:
    for name in names:
        core.handle(now, name.encode(), hello_of(name), None)


def tick(core: LearnerCore, now: float) -> list[Effect]:
    """A checkpoint is on the disk at once."""
    effects = core.tick(now)
    for save in kinds(effects, SaveCheckpoint):
        assert isinstance(save, SaveCheckpoint)
        assert core.saved(now, save.version, "") == []
    return effects


def kinds(effects: list[Effect], kind: type[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, kind)]


def test_a_stranger_is_asked_to_say_hello_first() -> None:
    core, store = learner_of()
    for message in (gradient_of(), Pull(version=0), Heartbeat(), Inspect()):
        (refused,) = sent(core.handle(0.0, b"x", message, BODY), Refused, b"x")
        assert refused.code == "unknown"
    assert core.handle(0.0, b"x", Goodbye(reason="never was here"), None) == []
    assert store.added == []


def test_another_protocol_is_refused_with_both_numbers_and_noise_is_not_answered() -> None:
    core, _ = learner_of()
    effects = core.malformed(b"x", ProtocolError("protocol 99 is not 1"))
    (refused,) = sent(effects, Refused, b"x")
    assert refused.code == "protocol"
    assert refused.reason == "protocol 99 is not 1"
    noise = WireError("a header that is no msgpack")
    line, ended = core.malformed(b"x", noise)
    assert ("no msgpack" in logged([line])[0], ended) == (True, Disconnect(b"x"))
    joined(core, "x")
    assert core.malformed(b"x", noise) == [line]


def test_heartbeats_are_answered_and_trouble_is_shown() -> None:
    core, _ = learner_of()
    joined(core, "x")
    effects = core.handle(1.0, b"x", Heartbeat(state="waiting"), None)
    assert sent(effects, Heartbeat, b"x") and not logged(effects)
    effects = core.handle(2.0, b"x", Heartbeat(state="working", last_error="a reward was NaN"), None)
    assert logged(effects) == ["warning: x: a reward was NaN"]
    core.handle(3.0, b"x", Heartbeat(state="working"), None)
    status = core.run.status(3.0)
    assert status.warnings == ["x: a reward was NaN"]
    assert (status.actors[0].state, status.actors[0].last_error) == ("working", "a reward was NaN")


def test_trouble_that_changes_each_time_cannot_fill_the_log() -> None:
    core, _ = learner_of()
    joined(core, "x")
    effects = [core.handle(1.0, b"x", Heartbeat(last_error=f"number {n}"), None) for n in range(50)]
    keys = {effect.key for each in effects for effect in each if hasattr(effect, "key")}
    assert len(keys) == 1
    assert len(core.run.status(2.0).warnings) == 5


def test_a_gradient_becomes_a_step_an_acknowledgement_and_a_broadcast() -> None:
    core, store = learner_of()
    joined(core, "x")
    effects = core.handle(1.0, b"x", gradient_of(), BODY)
    (answer,) = sent(effects, Acknowledgement, b"x")
    assert (answer.verdict, answer.version, answer.sequence) == ("applied", 1, 1)
    assert [added for added, *_ in store.steps] == [[(BODY, CODEC, 1.0)]]
    assert len(kinds(effects, Publish)) == 1
    assert core.flush(1.0) == []
    (weights,) = sent(core.handle(1.0, b"x", Pull(version=0), None), Weights)
    assert weights.version == 1


def test_a_pull_that_waits_is_forgotten_with_the_actor_that_is_quarantined() -> None:
    core, _ = learner_of("exchange.egress_mbit=0.00001")
    joined(core, "x", "y")
    core.handle(1.0, b"x", gradient_of(), BODY)
    assert core.handle(2.0, b"y", Pull(version=0), None) == [], "the welcomes have taken the budget for some seconds"
    effects = [core.handle(3.0, b"y", gradient_of(sequence=n, version=1), BAD) for n in range(1, BAD_IN_A_ROW + 1)]
    assert sent(effects[-1], Refused, b"y")
    assert sent(core.tick(1e4), Weights) == []


def test_metrics_every_second_and_more_often_while_the_run_is_young() -> None:
    core, _ = learner_of()
    now, times = 0.0, []
    while now < 30.0:
        if kinds(core.tick(now), WriteMetrics):
            times.append(now)
        now = core.deadline
    assert times[-1] >= 29.0
    for earlier, later in pairwise(times):
        assert later - earlier == pytest.approx(min(1.0, max(1.0, earlier) / 20))


def test_actors_that_left_long_ago_do_not_hold_back_the_score() -> None:
    core, _ = learner_of("limits.window=10", "checkpoint.every_seconds=0")
    joined(core, "guest", "x", "y")
    window = core.run.stats.window

    def play_all(now: float, sequence: int, returns: dict[str, float]) -> None:
        for name, value in returns.items():
            message = gradient_of(sequence, 0, steps=60, episodes=[(value, 10, 0.1)] * 6)
            core.handle(now, name.encode(), message, BODY)
        core.tick(now)

    play_all(1.0, 1, {"guest": 0.0, "x": 9.0, "y": 9.0})
    core.handle(2.0, b"guest", Goodbye(reason="it is late"), None)
    for number in range(2, 40):
        play_all(2.0 * number, number, {"x": 9.0, "y": 9.0})
    assert window.score == 9.0
    assert not {"guest"} & {*window.sources}


def test_the_deadline_is_never_past_once_all_that_is_due_is_done() -> None:
    core, _ = learner_of()
    joined(core, "x")
    for n in range(200):
        now = 0.013 * n
        core.handle(now, b"x", gradient_of(n + 1, n), BODY)
        core.tick(now)
        assert core.deadline > now


def finish(effects: list[Effect]) -> Finish | None:
    return next((effect for effect in effects if isinstance(effect, Finish)), None)


def play(core: LearnerCore, sequence: int, now: float = 1.0, **changed: object) -> list[Effect]:
    return core.handle(now, b"x", gradient_of(sequence, sequence - 1, **changed), BODY)


def play_and_tick(core: LearnerCore, sequence: int, **changed: object) -> list[Effect]:
    return play(core, sequence, **changed) + core.tick(1.0)


@pytest.mark.parametrize(("limit", "number"), [("limits.frames=60", 3), ("limits.episodes=4", 2)])
def test_a_limit_ends_the_run_and_everyone_is_told_for_good(limit: str, number: int) -> None:
    core, _ = learner_of(limit)
    joined(core, "x", "y")
    episodes = [(10.0, 10, 0.1), (12.0, 8, 0.1)]
    for sequence in range(1, number):
        assert finish(play_and_tick(core, sequence, episodes=episodes)) is None
    effects = play_and_tick(core, number, episodes=episodes)
    ending = finish(effects)
    assert ending is not None and ending.ending == "finished"
    assert limit.split("=")[1] in ending.reason
    assert [stop.final for stop in sent(effects, Stop)] == [True, True]
    assert sent(effects, Acknowledgement)[0].verdict == "applied"
    assert finish(play_and_tick(core, number + 1)) is None, "once"
    assert finish(core.tick(100.0)) is None


def test_a_limit_in_seconds_needs_no_gradient() -> None:
    core, _ = learner_of("limits.seconds=5")
    assert finish(core.tick(4.0)) is None
    ending = finish(core.tick(5.0))
    assert ending is not None and ending.reason.startswith("5 of 5 seconds")


def test_stale_gradients_do_not_count_for_the_limit() -> None:
    core, store = learner_of("limits.frames=20", counters=Counters(version=100))
    joined(core, "x")
    effects = core.handle(1.0, b"x", gradient_of(1, 0), BODY)
    assert sent(effects, Acknowledgement)[0].verdict == "stale"
    assert finish(core.tick(1.0)) is None
    assert store.steps == []
    core.handle(1.0, b"x", gradient_of(2, 100), BODY)
    assert finish(core.tick(1.0)) is not None


def test_the_goal_counts_only_once_the_window_is_full() -> None:
    core, _ = learner_of("limits.until_return=100", "limits.window=3")
    joined(core, "x")
    assert finish(play_and_tick(core, 1, episodes=[(500.0, 10, 0.1), (500.0, 10, 0.1)])) is None
    assert finish(play_and_tick(core, 2, episodes=[(-800.0, 10, 0.1)])) is None
    ending = finish(play_and_tick(core, 3, episodes=[(600.0, 10, 0.1)]))
    assert ending is not None and (ending.ending, core.run.stats.state) == ("reached", "reached")
    assert "100.0 over 3 episodes" in ending.reason


def test_a_run_stopped_by_a_signal_is_expected_back_and_observers_hear_how_it_stands() -> None:
    core, _ = learner_of()
    joined(core, "x")
    core.handle(0.0, b"o", hello_of("o", "observer"), None)
    effects = core.stop(3.0)
    assert [stop.final for stop in sent(effects, Stop)] == [False, False]
    (report,) = sent(effects, Status, b"o")
    assert msgspec.convert(report.report, RunStatus).state == "stopped"


def test_the_end_brings_the_last_row_the_last_checkpoint_and_the_status_of_the_whole_run() -> None:
    core, noted = learner_of("limits.frames=20")
    joined(core, "x")
    *_, row, save, end = play_and_tick(core, 1)
    assert isinstance(row, WriteMetrics) and row.row["frames"] == 20
    assert isinstance(save, SaveCheckpoint) and save.weights is noted.weights.vector
    assert (save.version, save.state["model"], save.state["counters"]["frames"]) == (1, MODEL, 20)
    assert isinstance(end, Finish) and (end.status.state, end.status.frames) == ("finished", 20)


def test_weights_that_are_no_numbers_end_the_run_without_a_checkpoint() -> None:
    core, noted = learner_of()
    joined(core, "x")
    noted.weights.vector[0] = math.nan
    effects = core.tick(0.0)
    ending = finish(effects)
    assert ending is not None and (ending.ending, core.run.stats.state) == ("failed", "failed")
    assert [stop.final for stop in sent(effects, Stop)] == [True]
    assert not kinds(effects, SaveCheckpoint) and not kinds(effects, WriteMetrics)


@pytest.mark.parametrize("ends", ["save", "limit", "signal"])
def test_weights_that_are_no_numbers_are_never_saved(ends: str) -> None:
    core, noted = learner_of("checkpoint.every_seconds=1.5", "limits.seconds=1.4" if ends == "limit" else "seed=0")
    core.tick(1.0)
    noted.weights.vector[0] = math.inf
    effects = core.stop(1.6) if ends == "signal" else core.tick(1.6)
    ending = finish(effects)
    assert ending is not None and ending.ending == "failed"
    assert not kinds(effects, SaveCheckpoint)


def test_a_heartbeat_tells_how_busy_its_host_is() -> None:
    core, _ = learner_of()
    joined(core, "x")
    assert core.run.status(0.0).hosts == []
    core.handle(1.0, b"x", Heartbeat(processor=0.5, memory=3, memory_total=4), None)
    core.handle(2.0, b"x", Heartbeat(state="a system that says nothing"), None)
    core.run.stats.host = HostLook(7, Load(0.1, 1, 2))
    status = core.run.status(2.0)
    assert [(one.name, one.actors, one.processor, one.memory_total) for one in status.hosts] == [
        ("gpu-box", 0, 0.1, 2),
        ("lab", 1, 0.5, 4),
    ]
    assert (status.disk_free, status.keys) == (7, [])


def test_the_status_reads_back_as_it_was_written() -> None:
    core, _ = learner_of("limits.frames=1000", "limits.until_return=9", "limits.seconds=60")
    joined(core, "x")
    core.handle(0.0, b"l", hello_of("l", "launcher", slots=4), None)
    core.handle(0.5, b"l", FleetReport(slots=4, running=1, starting=1, failed=3, why="it crashed"), None)
    play(core, 1, episodes=[(5.0, 10, 0.5)], statistics={"entropy": 0.5})
    core.handle(2.0, b"o", hello_of("o", "observer"), None)
    (answer,) = sent(core.handle(2.0, b"o", Inspect(), None), Status, b"o")
    read = unpack(pack(answer))
    assert isinstance(read, Status)
    status = msgspec.convert(read.report, RunStatus)
    assert status == core.run.status(2.0)
    assert (status.frames, status.frames_left, status.seconds_left, status.goal) == (20, 980, 58.0, 9.0)
    assert (status.actors[0].name, status.actors[0].gradients, status.actors_now) == ("x", 1, 1)
    assert (status.launchers[0].slots, status.launchers[0].ordered, status.launchers[0].why) == (4, 2, "it crashed")
    assert status.losses == {"entropy": 0.5}


def test_synchronously_all_are_answered_behind_the_weights_once_the_last_has_sent_or_time_is_up() -> None:
    core, store = learner_of("staleness.policy=synchronous", "staleness.wait_seconds=0.4")
    joined(core, "x", "y")
    core.tick(0.0)
    assert core.handle(0.1, b"x", gradient_of(), BODY) == []
    core.tick(0.48)  # the next row of metrics is due later than the answers
    assert core.deadline == pytest.approx(0.5)
    effects = core.handle(0.49, b"y", gradient_of(), BODY)
    answers = [(effect.peer, type(effect.message)) for effect in effects if isinstance(effect, Send)]
    assert answers == [(b"x", Weights), (b"x", Acknowledgement), (b"y", Weights), (b"y", Acknowledgement)]
    assert core.handle(0.6, b"y", gradient_of(2, 1), BODY) == core.flush(0.9) == []
    assert [type(effect.message) for effect in core.flush(1.01) if isinstance(effect, Send)] == [
        Weights,
        Acknowledgement,
    ]
    assert len(store.steps) == 2


def test_a_site_that_tells_again_how_many_it_has_makes_nobody_join() -> None:
    """Else whoever plays alone there would never be believed."""
    core, _ = learner_of("exchange.kind=gradients")
    core.handle(0.0, b"r", hello_of("site", "relay"), None)
    joined: list[int] = []
    core.run.stats.joined = joined.append  # type: ignore[method-assign]
    for actors in (2, 2, 1, 3):
        assert core.handle(1.0, b"r", SiteReport(actors=actors), None) == []
    assert joined == [2, 3]
    assert (core.run.peers.actors, core.present) == (3, 1)
