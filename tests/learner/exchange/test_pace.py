from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from common.wire.messages import Acknowledgement
from learner.effects import Send
from learner.exchange.pace import MOST, Pace
from learner.peers import Peers
from tests.helpers.run import gradient_of, hello_of, learner_of, sent
from tests.learner.exchange.test_base import BODY, Run

HZ = 400
HONEST = dict.fromkeys(("a", "b", "c"), HZ // 10)


def played(ticks: dict[str, int], *settings: str) -> dict[str, tuple[int, int]]:
    """Of each actor the gradients that were applied, and that were stale, from the fifth to the tenth second.

    Each takes so many ticks for a rollout on the weights of its last answer, and waits for the next one.
    """
    core, _ = learner_of(*settings)
    due = {name: (number + 1, 1, 0) for number, name in enumerate(ticks)}
    before: dict[str, tuple[int, int]] = {}
    for name in ticks:
        core.handle(0.0, name.encode(), hello_of(name), None)
    peers = [peer for _, peer in core.run.peers.role("actor")]
    for tick in range(10 * HZ):
        now = tick / HZ
        effects = core.answer(now) + core.flush(now)
        for name in [name for name, (when, *_) in due.items() if when <= tick]:
            _, sequence, version = due.pop(name)
            effects += core.handle(now, name.encode(), gradient_of(sequence, version), b"body")
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Acknowledgement):
                name, answer = effect.peer.decode(), effect.message
                due[name] = tick + ticks[name], answer.sequence + 1, answer.version
        if tick == 5 * HZ:
            before = {peer.hello.name: (peer.gradients, peer.stale) for peer in peers}
    return {
        name: (peer.gradients - before[name][0], peer.stale - before[name][1])
        for peer in peers
        for name in (peer.hello.name,)
    }


def test_one_greedy_actor_makes_nobody_stale_and_costs_the_others_nothing() -> None:
    beside = played(HONEST | {"greedy": 1})
    assert {beside[name] for name in HONEST} == {(50, 0)}
    gradients, stale = beside["greedy"]
    assert gradients == pytest.approx(50 * MOST, rel=0.1) and stale == 0


@pytest.mark.parametrize("times", [4, 5])
def test_a_faster_host_keeps_its_whole_speed(times: int) -> None:
    assert played(HONEST | {"fast": HZ // 10 // times}) == {**dict.fromkeys(HONEST, (50, 0)), "fast": (50 * times, 0)}


def test_without_three_others_nobody_is_held_back() -> None:
    assert played({"a": HZ // 10, "b": HZ // 10, "fast": 2})["fast"] == (5 * HZ // 2, 0)


def test_where_half_are_much_faster_none_of_them_is_held_back() -> None:
    beside = played(HONEST | dict.fromkeys("xyz", 2))
    assert all(beside[name][0] >= 5 * HZ // 2 - 1 for name in "xyz")


def crew(*names: str) -> Peers:
    peers = Peers()
    for name in names:
        peer, _ = peers.join(name.encode(), hello_of(name), 0.0)
        peer.plays = True
    return peers


def sending(pace: Pace, begin: float, end: float, names: Sequence[str], every: float = 0.1) -> set[str]:
    """All of these send a rollout, again and again; who was held back."""
    held = set()
    for number in range(round((end - begin) / every)):
        now = begin + every * number
        held |= {name for name in names if pace.sent(now, name, 1) > now}
    return held


def test_a_learner_that_stood_still_holds_nobody_back() -> None:
    pace = Pace(crew(*"abcd"))
    assert sending(pace, 0, 10, "abcd") == set()
    assert sending(pace, 130, 140, "abcd") == set()


def test_others_that_hang_hold_nobody_back() -> None:
    pace = Pace(crew(*"abcd"))
    assert sending(pace, 0, 10, "abcd") == set()
    assert sending(pace, 10, 60, "a") == set()


def test_who_is_held_back_is_named_for_a_minute_and_by_any_of_its_processes() -> None:
    pace = Pace(crew(*"abcd"))
    sending(pace, 0, 10, "abcd")
    until = [pace.sent(10.0, "d", 4) for _ in range(6)]
    assert until[-1] - until[-2] == pytest.approx(4 * 0.1 / MOST, rel=0.1), "four rollouts take four times as long"
    assert pace.named() == ["d sends more than 8 times as often as the middle actor: it waits longer for its answers"]
    sending(pace, 10, 75, "abcd")
    assert pace.named() == []


def test_many_names_are_not_remembered() -> None:
    pace = Pace(crew(*"abcd"))
    sending(pace, 0, 10, "abcd")
    for number in range(1000):
        pace.sent(10 + number / 100, str(number), 1)
    assert len(pace._counts) + len(pace._paid) < 200


def test_an_answer_that_is_held_back_comes_in_time_once_and_where_the_actor_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Pace, "sent", lambda *_: 3.0)
    run = Run()
    run.send(sequence=1)
    assert sent(run.exchange.step(1.0), Acknowledgement) == [] and run.counters.version == 1
    assert run.exchange.deadline == 3.0
    assert run.verdict(sequence=2).verdict == "refused", "it has no credit yet"
    peer = run.peers.get(b"0")
    assert peer is not None
    run.peers.moved(b"new", peer.hello)
    assert run.exchange.handle(2.0, b"new", peer, gradient_of(sequence=1), BODY) == []
    assert run.exchange.answer(2.9) == []
    (answer,) = sent(run.exchange.answer(3.0), Acknowledgement, b"new")
    assert (answer.sequence, answer.verdict) == (1, "applied")
    assert run.exchange.answer(4.0) == [] and run.exchange.deadline == math.inf


@pytest.mark.parametrize("assignment", ["exchange.credit=0", "staleness.policy=synchronous"])
def test_nothing_is_held_back_without_credit_or_where_all_wait_for_each_other(
    assignment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "sent", lambda *_: 3.0)
    run = Run((assignment,))
    run.send()
    assert [answer.verdict for answer in sent(run.exchange.step(1.0), Acknowledgement)] == ["applied"]


def test_a_relay_is_as_fast_as_its_actors_together() -> None:
    """Three actors, and a relay of twenty that are as fast: it sends twenty times as often."""
    peers = crew("a", "b", "c")
    site, _ = peers.join(b"site", hello_of("site", "relay"), 0.0)
    site.plays = True
    for actors, held in ((20, 0), (1, 100)):
        pace, late = Pace(peers), 0
        for tick in range(600):
            now = tick / 100
            for name in "abc":
                if tick % 20 == 0:
                    pace.sent(now, name, 1)
            late += pace.sent(now, "site", 1, actors) > now
        assert (late > 0) == (held > 0)
