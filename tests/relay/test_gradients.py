from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from common.settings.exchanges import MOST_SUMMED
from common.wire.messages import Acknowledgement, Refused, Trajectory
from learner.effects import Disconnect, Effect, Send
from learner.exclusion import BAD_IN_A_ROW, MOST_OFFENCES
from learner.peer import Peer
from learner.peers import Peers
from relay.gradients import Count, Gradients
from relay.sum_player import SumPlayer
from relay.weights import KeptWeights
from tests.helpers.run import gradient_of, hello_of, logged, sent, settings_of, spec_of

SIZE, VERSION = 4, 20
BODY = np.full(SIZE, 0.1, np.float32).tobytes()


class Bench:
    """A site's gradients, with everything round them."""

    def __init__(self, *assignments: str, actors: int = 1, in_run: int = 10) -> None:
        settings = settings_of("exchange.kind=gradients", "algorithm.max_grad_norm=1.0", *assignments)
        spec = replace(spec_of(settings, longest=500), parameters=SIZE)
        self.peers, self.count, self.warned = Peers(), Count(), list[str]()
        self.weights = KeptWeights(1, 100.0)
        self.weights.load(VERSION, b"body", delta=False)
        self.total = SumPlayer(spec, "none", self.weights)
        self.gradients = Gradients(
            spec,
            self.peers,
            self.weights,
            self.total,
            self.count,
            actors=lambda: in_run,
            warn=self.warned.append,
        )
        for number in range(actors):
            peer, _ = self.peers.join(str(number).encode(), hello_of(str(number)), 0.0, place="here")
            peer.codec = "none"

    def peer(self, number: int = 0) -> Peer:
        found = self.peers.get(str(number).encode())
        assert found is not None
        return found

    def send(
        self,
        sequence: int = 1,
        number: int = 0,
        *,
        body: bytes | None = BODY,
        now: float = 1.0,
        fill: bool = True,
        **changed: Any,
    ) -> list[Effect]:
        header = changed.pop("header", None) or gradient_of(sequence, changed.pop("version", VERSION), **changed)
        effects = self.gradients.handle(now, str(number).encode(), self.peer(number), header, body)
        return effects + (self.gradients.fill(now) if fill else [])


def verdicts(effects: list[Effect]) -> list[str]:
    return [answer.verdict for answer in sent(effects, Acknowledgement)]


def test_who_is_in_the_sum_is_answered_with_what_the_site_knows() -> None:
    bench = Bench("exchange.credit=2")
    (answer,) = sent(bench.send(count=3, steps=60), Acknowledgement)
    assert answer == Acknowledgement(sequence=1, verdict="applied", version=VERSION, credit=2, actors=10)
    assert (bench.total.pending, bench.peer().frames, bench.peer().gradients, bench.peer().plays) == (3, 60, 1, True)


def test_what_was_seen_before_is_in_one_sum_only() -> None:
    bench = Bench()
    bench.send()
    assert verdicts(bench.send()) == ["duplicate"]
    assert bench.total.pending == 1


def test_when_the_sum_is_full_actors_wait_and_then_who_waited_longest_comes_first() -> None:
    bench = Bench(actors=MOST_SUMMED + 2)
    answers = [verdicts(bench.send(number=number)) for number in range(MOST_SUMMED + 2)]
    assert answers == [["applied"]] * MOST_SUMMED + [[], []]
    assert bench.send(number=MOST_SUMMED) == [], "sent again, it is answered when it is in a sum"
    assert bench.gradients.fill(2.0) == []
    bench.total.pack(1)
    assert [effect.peer for effect in bench.gradients.fill(2.0) if isinstance(effect, Send)] == [b"16", b"17"]
    assert bench.total.pending == 2


def test_an_answer_goes_where_the_gradient_came_from_last() -> None:
    bench = Bench()
    bench.send(fill=False)
    moved = bench.gradients.handle(1.0, b"anew", bench.peer(), gradient_of(1, VERSION), BODY)
    assert moved == []
    (answer,) = bench.gradients.fill(1.0)
    assert isinstance(answer, Send) and answer.peer == b"anew"


def test_what_is_too_old_for_the_run_makes_no_sum_old() -> None:
    bench = Bench("staleness.refuse_factor=1", in_run=10)
    (stale,) = sent(bench.send(version=VERSION - 11), Acknowledgement)
    assert (stale.verdict, bench.count.stale, bench.peer().stale) == ("stale", 1, 1)
    assert "11 versions old, at most 10" in stale.why
    assert verdicts(bench.send(2, version=VERSION - 10)) == ["applied"]


def test_what_became_too_old_while_it_waited_is_stale() -> None:
    bench = Bench("staleness.refuse_factor=1")
    bench.send(fill=False)
    bench.weights.load(VERSION + 30, b"body", delta=False)
    assert verdicts(bench.gradients.fill(2.0)) == ["stale"]
    assert bench.total.pending == 0


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"model": "other"}, "model"),
        ({"codec": "int8"}, "packed as"),
        ({"version": VERSION + 1}, "the newest is"),
        ({"count": 5, "steps": 100}, "rollouts"),
        ({"steps": 10_000}, "steps"),
        ({"summed": True}, "of others"),
        ({"players": [1]}, "players"),
        ({"episodes": [(1.0, 501, 0.1)], "steps": 20}, "501 steps"),
        ({"episodes": [(float("nan"), 3, 0.1)]}, "return"),
        ({"moments": [(20, [0.0], [0.0])]}, "moments"),
        ({"body": None}, "without a body"),
        ({"body": b"short"}, "body"),
        ({"body": np.full(SIZE, np.inf, np.float32).tobytes()}, "not finite"),
        ({"body": np.full(SIZE, 9.0, np.float32).tobytes()}, "of norm"),
    ],
)
def test_what_cannot_be_used_is_refused_and_told_of(changed: dict[str, Any], why: str) -> None:
    bench = Bench()
    effects = bench.send(**changed)
    (answer,) = sent(effects, Acknowledgement)
    assert answer.verdict == "refused" and why in answer.why
    assert [why in line for line in logged(effects)] == [True] and why in bench.warned[-1]
    assert (bench.total.pending, bench.count.refused, bench.peer().refused) == (0, 1, 1)
    assert verdicts(bench.send(2)) == ["applied"], "the next may be good"


def test_a_trajectory_is_no_gradient() -> None:
    bench = Bench()
    fields = {name: getattr(gradient_of(1, VERSION), name) for name in Trajectory.__struct_fields__}
    assert verdicts(bench.send(header=Trajectory(**fields))) == ["refused"]


def test_the_third_in_a_row_that_cannot_be_used_quarantines_the_actor_and_nobody_else() -> None:
    bench = Bench(actors=2)
    for sequence in range(1, BAD_IN_A_ROW):
        assert verdicts(bench.send(sequence, body=b"bad")) == ["refused"]
    effects = bench.send(BAD_IN_A_ROW, body=b"bad")
    (refused,) = sent(effects, Refused)
    assert refused.code == "quarantined" and any(isinstance(effect, Disconnect) for effect in effects)
    assert bench.peers.get(b"0") is None
    assert bench.peers.quarantine.reason(1.0, "here", "0", proven=True)
    assert verdicts(bench.send(1, number=1)) == ["applied"]


def test_who_does_not_wait_for_answers_gets_them_and_is_shut_out_in_the_end() -> None:
    bench = Bench("exchange.credit=2")
    bench.send(1, fill=False)
    bench.send(2, fill=False)
    for number in range(MOST_OFFENCES - 1):
        assert verdicts(bench.send(3 + number, fill=False)) == ["refused"]
    (refused,) = sent(bench.send(100, fill=False), Refused)
    assert (refused.code, bench.peers.get(b"0")) == ("quarantined", None)


def test_a_gradient_of_another_epoch_sends_its_actor_to_say_hello() -> None:
    bench = Bench()
    for changed in ({"epoch": 2}, {"run": "other"}):
        (refused,) = sent(bench.send(**changed), Refused)
        assert refused.code == "unknown" and "this is run a-run, epoch 1" in refused.reason
    for _ in range(MOST_OFFENCES):
        refusals = sent(bench.send(epoch=2) if bench.peers.get(b"0") else [], Refused)
    assert bench.peers.get(b"0") is None and not refusals


def test_an_episode_of_more_steps_than_were_told_of_is_left_out_and_others_say_who_played_them() -> None:
    bench = Bench(actors=2)
    bench.send(1, 0, episodes=[(1.0, 15, 0.1), (2.0, 6, 0.1)])
    bench.send(1, 1, episodes=[(3.0, 20, 0.1)])
    header, _ = bench.total.pack(1)
    assert [one.length for one in header.episodes] == [15, 20]
    assert header.fields()["players"] == [bench.peer(0).seed, bench.peer(1).seed]


def test_figures_that_are_no_statistics_go_no_further() -> None:
    bench = Bench()
    names = {f"x{number}": 1.0 for number in range(60)}
    bench.send(statistics={**names, "entropy": 0.5, "kl": float("nan")})
    assert bench.total.pack(1)[0].statistics == {"entropy": 0.5}


def test_who_is_left_out_for_pointing_against_the_others_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from common.errors import AgainstOthersError

    def against(*_: object, **__: object) -> None:
        raise AgainstOthersError("0's gradients point against the others': they are left out")

    bench = Bench()
    monkeypatch.setattr(bench.total, "add", against)
    (answer,) = sent(bench.send(), Acknowledgement)
    assert answer.verdict == "refused" and "against" in answer.why
    assert bench.peer().bad_in_a_row == 0, "it comes back when it agrees again"


def test_who_sends_far_more_than_the_others_waits_for_its_answers() -> None:
    bench = Bench(actors=5)
    now, sequences, waits = 0.0, [0] * 5, [False] * 5
    for turn in range(600):
        now += 0.02
        for number in range(5):
            if not waits[number] and (number == 0 or turn % 20 == 0):
                sequences[number] += 1
                waits[number] = not verdicts(bench.send(sequences[number], number, now=now))
        if bench.gradients.answer(now):
            waits[0] = False
        bench.total.pack(1)
    often, usual = sequences[0], sequences[1]
    assert usual == 30 and 3 * usual < often < 600, "at most so many times as the middle one"
    assert (bench.count.refused, waits[1:]) == (0, [False] * 4)
    assert bench.gradients.deadline > now
