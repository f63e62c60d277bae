"""What one actor does cannot spoil the run for the others: here at the learner's core, without sockets."""

from __future__ import annotations

import pytest

from common.rl.episode import Episode
from common.wire.messages import Acknowledgement, Refused, Welcome
from learner.core import LearnerCore
from learner.effects import Disconnect, Effect, Finish
from learner.exclusion import MOST_OFFENCES
from learner.run_stats import Counters
from tests.helpers.run import BAD, gradient_of, hello_of, learner_of, logged, sent
from tests.learner.exchange.test_base import BODY, Run, synchronous


def test_who_does_not_wait_for_answers_is_refused_before_its_body_is_read_and_then_quarantined() -> None:
    run = Run(("exchange.credit=2",), actors=20)
    assert run.send("0", b"one", sequence=1) == run.send("0", b"two", sequence=2) == []
    answer = run.verdict("0", BAD, sequence=3)
    assert (answer.verdict, answer.credit) == ("refused", 2) and "its credit is 2: wait" in answer.why
    assert run.send("1", b"of another") == []
    for sequence in range(4, 2 + MOST_OFFENCES):
        assert run.verdict("0", b"more", sequence=sequence).verdict == "refused"
    effects = run.send("0", b"more", sequence=100)
    assert sent(effects, Refused, b"0")[0].code == "quarantined"
    assert "not answered yet, its credit is 2" in logged(effects)[-1]
    assert run.peers.get(b"0") is None
    run.exchange.step(1.0)
    assert [[body for body, *_ in added] for added, *_ in run.sum.steps] == [[b"one", b"two", b"of another"]]
    assert (run.counters.frames, run.counters.version) == (60, 1)


def test_an_actor_that_floods_takes_one_step_at_a_time_and_makes_nobody_stale() -> None:
    """As fast as it can, without reading an answer, beside three that play; steps are taken as the learner drains."""
    run = Run(("staleness.refuse_factor=2",), actors=11)
    for round_ in range(30):
        version = run.counters.version
        for number in range(40):
            if run.peers.get(b"0") is not None:
                run.send("0", b"flood", sequence=40 * round_ + number + 1, version=run.counters.version)
        for name in ("1", "2", "3"):
            run.send(name, sequence=round_ + 1, version=version)
            if run.exchange.is_ready:
                run.exchange.step(1.0)
        run.exchange.step(1.0)
    assert run.counters.stale == 0
    flooded = sum(body == b"flood" for added, *_ in run.sum.steps for body, *_ in added)
    assert (flooded, run.counters.gradients) == (1, 91)


def test_in_a_synchronous_step_nobody_has_two_votes() -> None:
    run = synchronous(actors=3)
    for sequence in range(1, 6):
        run.send("0", sequence=sequence)
    run.send("1")
    assert not run.exchange.is_ready
    run.send("2")
    run.exchange.step(1.0)
    assert [len(added) for added, *_ in run.sum.steps] == [3]


def test_what_is_sent_to_another_epoch_again_and_again_is_counted_and_ends_in_quarantine() -> None:
    run = Run()
    for sequence in range(1, MOST_OFFENCES):
        assert sent(run.send(sequence=sequence, epoch=0), Refused)[0].code == "unknown"
    assert sent(run.send(sequence=99, epoch=0), Refused)[0].code == "quarantined"
    assert run.counters.unknown == MOST_OFFENCES


def test_a_rollout_that_the_step_left_out_is_refused_by_name_and_the_others_are_applied() -> None:
    run = Run(actors=15)
    for name in ("0", "1", "2"):
        run.send(name, episodes=[(1.0, 20, 0.1)])
    run.sum.left_out = {1: "its gradient is not finite"}
    effects = run.exchange.step(1.0)
    verdicts = {effect.peer: effect.message.verdict for effect in effects if hasattr(effect, "peer")}  # type: ignore[union-attr]
    assert verdicts == {b"0": "applied", b"1": "refused", b"2": "applied"}
    assert logged(effects) == ["warning: 1 sent a gradient that cannot be used: its gradient is not finite"]
    assert (run.counters.frames, run.counters.episodes, run.counters.refused) == (40, 2, 1)


def test_where_all_of_a_step_are_left_out_nobody_is_blamed() -> None:
    run = Run(actors=10)
    for sequence in range(1, 6):
        run.send("0", sequence=sequence)
        run.send("1", sequence=sequence)
        run.sum.left_out, run.sum.to_blame = {0: "why", 1: "why"}, False
        effects = run.exchange.step(1.0)
        assert "the weights are too large" in logged(effects)[0] and len(logged(effects)) == 1
        assert [answer.verdict for answer in sent(effects, Acknowledgement)] == ["refused", "refused"]
        run.counters.version = 0
    assert run.peers.actors == 10 and run.counters.frames == 0


def quarantine(core: LearnerCore, name: str, now: float = 1.0, **place: str) -> list[Effect]:
    """Joins and sends three gradients that cannot be used."""
    core.handle(now, name.encode(), hello_of(name, incarnation=f"{name} at {now}"), None, **place)
    for sequence in (1, 2, 3):
        effects = core.handle(now, name.encode(), gradient_of(sequence), BAD, place.get("key_name", ""))
    return effects


def asked(core: LearnerCore, now: float, name: str, **place: str) -> str:
    """The answer to a hello of a new process of that name."""
    effects = core.handle(now, name.encode(), hello_of(name, incarnation=f"again at {now}"), None, **place)
    return "welcome" if sent(effects, Welcome) else sent(effects, Refused)[0].code


def test_who_is_quarantined_is_cut_off_and_kept_out_under_any_incarnation_until_its_time_is_over() -> None:
    core, store = learner_of()
    effects = quarantine(core, "x", address="10.0.0.7")
    assert sent(effects, Refused, b"x")[0].code == "quarantined"
    assert [effect.peer for effect in effects if isinstance(effect, Disconnect)] == [b"x"]
    assert sent(core.handle(1.0, b"x", gradient_of(4), BODY), Refused)[0].code == "unknown"
    assert asked(core, 2.0, "x", address="10.0.0.7") == "quarantined"
    assert asked(core, 2.0, "y", address="10.0.0.7") == "welcome"
    assert asked(core, 2.0, "x", address="10.0.0.8") == "welcome"
    (shown,) = core.run.status(2.0).quarantined
    assert (shown.name, shown.place, shown.seconds_left) == (
        "x",
        "address 10.0.0.7",
        119.0,
    ) and "not finite" in shown.why
    assert asked(core, 122.0, "x", address="10.0.0.7") == "welcome"
    assert store.steps == []


def test_with_keys_it_is_kept_out_by_its_key_wherever_it_comes_from() -> None:
    core, _ = learner_of()
    core.run.peers.key_roles = dict.fromkeys(("lab", "attic"), ("actor",))
    for number in range(3):
        quarantine(core, f"lab/{number}", key_name="lab", address=f"10.0.0.{number}")
    assert asked(core, 2.0, "lab/another", key_name="lab", address="10.9.9.9") == "quarantined"
    assert asked(core, 2.0, "attic/0", key_name="attic", address="10.0.0.0") == "welcome"


def test_nine_honest_actors_of_a_machine_stay_when_the_tenth_is_kept_out_again_and_again() -> None:
    core, _ = learner_of()
    for number in range(9):
        core.handle(0.0, str(number).encode(), hello_of(str(number)), None, address="127.0.0.1")
    now = 1.0
    for seconds in (120, 240, 480):
        quarantine(core, "bad", now, address="127.0.0.1")
        now += seconds + 1
    assert core.run.peers.actors == 9
    assert asked(core, now, "new", address="127.0.0.1") == "welcome"


def lying(core: LearnerCore, rounds: int, names: tuple[str, ...], episode: tuple[float, int, float]) -> list[Effect]:
    """All of them play episodes of return 20, one reports `episode` first and as often as its steps allow."""
    effects: list[Effect] = []
    for name in names:
        core.handle(0.0, name.encode(), hello_of(name), None)
    for number in range(1, rounds + 1):
        for name in names:
            figures = [episode] * (20 // episode[1]) if name == names[0] else [(20.0, 20, 0.1)]
            header = gradient_of(number, core.run.stats.counters.version, episodes=figures)
            effects += core.handle(0.1 * number, name.encode(), header, BODY)
        effects += core.tick(0.1 * number)
    return effects


@pytest.mark.parametrize("lie", [(1e9, 1, 0.1), (600.0, 1, 0.1), (1e30, 20, 1e9)])
def test_the_lie_of_one_among_several_neither_ends_the_run_nor_is_its_best(lie: tuple[float, int, float]) -> None:
    core, _ = learner_of("limits.until_return=475", "limits.window=20")
    effects = lying(core, 40, ("liar", "honest-1", "honest-2"), lie)
    assert not [effect for effect in effects if isinstance(effect, Finish)]
    status = core.run.status(10.0)
    assert status.best_return == status.mean_return == 20.0
    assert (status.frames, status.episode_seconds) == (40 * 3 * 20, pytest.approx(0.1))


def test_a_run_of_one_actor_reaches_its_goal() -> None:
    core, _ = learner_of("limits.until_return=475", "limits.window=20")
    effects = lying(core, 40, ("only",), (500.0, 10, 0.1))
    assert [effect.ending for effect in effects if isinstance(effect, Finish)] == ["reached"]


def test_whoever_is_first_after_a_restart_is_not_believed_alone() -> None:
    resumed = Counters(actors_peak=3, best_return=20.0, recent=[Episode(20.0, 20, 0.1)] * 20, episodes=20)
    core, _ = learner_of("limits.until_return=475", "limits.window=20", counters=resumed)
    effects = lying(core, 40, ("liar",), (500.0, 1, 0.1))
    assert not [effect for effect in effects if isinstance(effect, Finish)]
    assert core.run.status(10.0).best_return == 20.0
