from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import CodecError
from common.rl.normalization import Normalization
from common.run.status import RunStatus
from common.wire.frames import pack, unpack
from common.wire.messages import Acknowledgement, Refused, Status
from learner.effects import Effect
from learner.exclusion import BAD_IN_A_ROW
from learner.peer import Peer
from learner.run_stats import Counters
from tests.helpers.examples import examples
from tests.helpers.run import (
    BAD,
    CODEC,
    NotedSum,
    exchange_of,
    gradient_of,
    hello_of,
    logged,
    run_of,
    sent,
    settings_of,
)

BODY = b"gradient"


@dataclass
class Run:
    """An exchange with actors `0`, `1`, ... in the run."""

    assignments: tuple[str, ...] = ()
    version: int = 0
    actors: int = 1
    counted: int = 0

    def __post_init__(self) -> None:
        chosen = settings_of(*self.assignments)
        self.run = run_of(chosen, counters=Counters(version=self.version), counted=self.counted, longest=500)
        self.peers, self.counters = self.run.peers, self.run.stats.counters
        self.sum = NotedSum(self.version, Normalization(self.counted, rewards=False))
        self.exchange = exchange_of(self.run, self.sum)
        for number in range(self.actors):
            self.join(str(number))

    def join(self, name: str, **changed: Any) -> Peer:
        peer, _ = self.peers.join(name.encode(), hello_of(name, **changed), 0.0)
        peer.codec = CODEC
        return peer

    def send(self, name: str = "0", body: bytes | None = BODY, **changed: Any) -> list[Effect]:
        peer = self.peers.get(name.encode())
        assert peer is not None
        return self.exchange.handle(1.0, name.encode(), peer, gradient_of(**changed), body)

    def verdict(self, name: str = "0", body: bytes | None = BODY, **changed: Any) -> Acknowledgement:
        (answer,) = sent(self.send(name, body, **changed), Acknowledgement, name.encode())
        return answer


def test_good_gradients_wait_and_are_applied_and_answered_together() -> None:
    run = Run(actors=10)
    assert run.send("0", b"one") == run.send("1", b"two") == []
    assert run.exchange.is_ready
    answers = sent(run.exchange.step(2.0), Acknowledgement)
    assert [(answer.verdict, answer.version, answer.actors) for answer in answers] == [("applied", 1, 10)] * 2
    assert [[body for body, *_ in added] for added, *_ in run.sum.steps] == [[b"one", b"two"]]
    assert not run.exchange.is_ready
    assert run.exchange.step(3.0) == []
    counters = run.counters
    assert (counters.gradients, counters.frames, counters.emulator_frames, counters.version) == (2, 40, 160, 1)
    assert counters.gradient_bytes == 6


@pytest.mark.parametrize(("actors", "cap", "most"), [(1, 16, 1), (14, 16, 2), (100, 16, 16), (100, 3, 3)])
def test_full_at_a_fifth_of_the_actors_between_one_and_the_cap(actors: int, cap: int, most: int) -> None:
    run = Run((f"exchange.coalesce={cap}",), actors=actors)
    for number in range(most):
        assert not run.exchange.is_ready
        run.send(str(number))
    assert run.exchange.is_ready


def test_a_step_that_is_not_full_waits_as_long_as_reading_brings_more_to_it() -> None:
    run = Run(actors=20)
    for number in range(3):
        run.send(str(number))
        assert not run.exchange.is_ready
        assert run.exchange.step(2.0 + number, heard_all=False) == []
    assert len(sent(run.exchange.step(5.0, heard_all=False), Acknowledgement)) == 3
    run.send("3")
    assert len(sent(run.exchange.step(5.0, heard_all=True), Acknowledgement)) == 1
    for number in range(4, 8):
        run.send(str(number))
    assert len(sent(run.exchange.step(6.0, heard_all=False), Acknowledgement)) == 4


def test_lag_scales_the_gradient_and_the_step_is_scaled_by_the_mean() -> None:
    run = Run(version=8, actors=10)
    run.send("0", version=8)
    run.send("1", version=5)
    run.exchange.step(1.0)
    ((added, scale, frames),) = run.sum.steps
    assert [weight for *_, weight in added] == pytest.approx([1.0, 0.5])
    assert (scale, frames) == (pytest.approx(0.75), 40)
    several = Run(version=8, actors=10)
    several.send("0", version=8, count=3)
    several.send("1", version=5)
    several.exchange.step(1.0)
    assert several.sum.steps[0][1] == pytest.approx(0.75), "a mean of messages, as GradientSum takes it"
    unscaled = Run(("staleness.scale=none",), version=8)
    unscaled.send(version=5)
    unscaled.exchange.step(1.0)
    assert unscaled.sum.steps[0][1] == 1.0


def test_what_is_older_than_the_limit_is_answered_stale_and_none_of_its_figures_is_counted() -> None:
    run = Run(("staleness.refuse_factor=4",), version=100, actors=3)
    assert run.send(sequence=1, version=88) == []
    answer = run.verdict("1", version=87, episodes=[(5.0, 10, 0.1)])
    assert (answer.verdict, answer.version) == ("stale", 100)
    assert "13 versions" in answer.why and "12" in answer.why
    counters = run.counters
    assert (counters.stale, counters.refused) == (1, 0)
    assert [body for body, *_ in run.sum.added] == [BODY]
    run.exchange.step(1.0)
    assert (counters.frames, counters.episodes, counters.gradient_bytes) == (20, 0, 2 * len(BODY))
    never = Run(("staleness.refuse_factor=0",), version=10_000)
    assert never.send(version=0) == []


def test_a_duplicate_is_answered_and_neither_applied_nor_counted() -> None:
    run = Run()
    run.send(sequence=1)
    run.exchange.step(1.0)
    assert run.verdict(sequence=1).verdict == "duplicate"
    assert len(run.sum.steps[0][0]) == 1
    assert (run.counters.duplicates, run.counters.frames) == (1, 20)


def test_a_reconnected_actor_is_still_known_by_its_numbers() -> None:
    run = Run()
    run.send(sequence=1)
    run.exchange.step(1.0)
    run.peers.leave(b"0")
    run.join("0")
    assert run.verdict(sequence=1).verdict == "duplicate"
    run.peers.leave(b"0")
    run.join("0", incarnation="restarted")
    assert run.send(sequence=1) == []


@pytest.mark.parametrize("changed", [{"run": "another"}, {"epoch": 0}, {"epoch": 2}])
def test_another_run_or_epoch_means_join_again(changed: dict[str, Any]) -> None:
    run = Run()
    (refused,) = sent(run.send(**changed), Refused, b"0")
    assert refused.code == "unknown" and "a-run, epoch 1" in refused.reason
    assert (run.sum.added, run.counters.frames, run.counters.refused) == ([], 0, 0)
    assert run.send() == [], "its number has not been used up"


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"model": "another"}, "model 'another'"),
    ({"codec": "int8"}, "packed as 'int8', agreed was 'none'"),
    ({"version": 6}, "version 6, the newest is 5"),
    ({"version": 2**63 - 1}, "the newest is 5"),
    ({"body": None}, "without a body"),
    ({"body": BAD}, "not finite"),
    ({"steps": 10**9}, "at most 320"),
    ({"steps": 321}, "at most 320"),
    ({"count": 5, "steps": 20}, "of 5 rollouts, at most 4"),
    ({"steps": 1, "emulator_frames": 1, "episodes": [(1e9, 1, 0.1)] * 2}, "1 steps that end 2 episodes"),
    ({"emulator_frames": 81}, "81 frames, 20 steps have at most 4 each"),
    ({"episodes": [(math.nan, 1, 0.1)]}, "an episode of return nan"),
    ({"episodes": [(-math.inf, 1, 0.1)]}, "an episode of return -inf"),
    ({"episodes": [(1e31, 1, 0.1)]}, "an episode of return 1e+31"),
    ({"episodes": [(1.0, 0, 0.1)]}, "an episode of 0 steps"),
    ({"episodes": [(1.0, 1, -0.1)]}, "an episode of -0.1 seconds"),
    ({"episodes": [(1.0, 501, 0.1)]}, "501 steps, the environment ends them after 500"),
    ({"moments": [(20, [0.0], [1.0])]}, "1 moments of 1 rollouts in a run that counts 0 numbers"),
]


@pytest.mark.parametrize(("changed", "why"), UNUSABLE)
def test_what_cannot_be_used_is_refused_with_the_reason_and_changes_nothing(changed: dict[str, Any], why: str) -> None:
    run = Run(version=5)
    effects = run.send(**({"version": 5} | changed))
    (answer,) = sent(effects, Acknowledgement)
    assert answer.verdict == "refused" and why in answer.why
    assert "0 sent a gradient that cannot be used" in logged(effects)[0] and why in logged(effects)[0]
    assert run.sum.added == []
    assert run.counters.refused == 1
    run.exchange.step(1.0)
    assert run.counters.frames == run.counters.episodes == 0
    assert run.send(sequence=2, version=5) == []


@pytest.mark.parametrize(
    ("moments", "why"),
    [
        ([], "moments of 0 steps, the gradient is of 20"),
        ([(19, [0.0, 0.0], [1.0, 1.0])], "moments of 19 steps, the gradient is of 20"),
        ([(10, [0.0, 0.0], [1.0, 1.0])] * 2, "2 moments of 1 rollouts"),
        ([(20, [0.0, math.nan], [1.0, 1.0])], "not finite"),
    ],
)
def test_moments_that_cannot_be_are_refused_with_their_gradient(moments: Any, why: str) -> None:
    run = Run(counted=2)
    assert why in run.verdict(moments=moments).why
    assert (run.sum.added, run.sum.weights.moments) == ([], None)
    good = [(20, [0.0, 1.0], [0.0, 2.0])]
    run.send(sequence=2, moments=good, body=BAD)
    assert run.send(sequence=3, moments=good) == []
    assert run.sum.weights.moments is None, "it waits: they are not in the weights of a checkpoint yet"
    run.exchange.step(1.0)
    moments_of_one = run.sum.weights.moments
    assert moments_of_one is not None and moments_of_one[0] == 20, "of a gradient that cannot be used nothing counts"


def test_the_largest_honest_gradient_is_taken() -> None:
    run = Run(("exchange.accumulate=4", "algorithm.rollout_length=20", "environment.num_envs=16"))
    assert run.send(count=4, steps=4 * 20 * 16, episodes=[(1.0, 1, 0.1)] * 1280) == []
    whole = Run(("algorithm.whole_episodes=true", "environment.num_envs=1"), actors=2)
    assert whole.send("0", steps=500) == []
    assert "501 steps, 1 rollouts have at most 500" in whole.verdict("1", steps=501).why


def test_three_unusable_ones_in_a_row_quarantine_an_actor() -> None:
    run = Run(actors=2)
    for sequence in range(1, BAD_IN_A_ROW):
        assert run.verdict(body=BAD, sequence=sequence).verdict == "refused"
    effects = run.send(body=BAD, sequence=BAD_IN_A_ROW)
    (refused,) = sent(effects, Refused, b"0")
    assert refused.code == "quarantined" and "not finite" in refused.reason
    assert sent(effects, Acknowledgement) == []
    assert logged(effects)[-1].startswith("error: 0 is quarantined for 120 s: 3 gradients in a row")
    assert run.peers.get(b"0") is None
    assert "not finite" in run.peers.quarantine.reason(1.0, "", "0", proven=True)
    assert run.send("1") == []


def test_a_good_one_in_between_starts_the_count_anew() -> None:
    run = Run()
    for sequence in range(1, 20):
        body = BODY if sequence % BAD_IN_A_ROW == 0 else BAD
        run.send(body=body, sequence=sequence)
        run.exchange.step(1.0)
        run.counters.version = 0
    assert run.peers.get(b"0") is not None


@settings(max_examples=examples(60))
@given(
    fields=st.fixed_dictionaries(
        {
            "sequence": st.integers(0, 2**63 - 1),
            "version": st.integers(0, 2**63 - 1) | st.integers(0, 10),
            "steps": st.integers(0, 10**9) | st.integers(0, 320),
            "emulator_frames": st.integers(0, 10**11),
            "count": st.integers(1, 4096) | st.integers(1, 4),
            "episodes": st.lists(st.tuples(st.floats(), st.integers(-(2**63), 2**64 - 1), st.floats()), max_size=4),
            "statistics": st.dictionaries(st.sampled_from(["entropy", "policy_loss", "other"]), st.floats()),
        }
    )
)
def test_no_figures_break_the_counters_or_the_status(fields: dict[str, Any]) -> None:
    run = Run(("limits.window=3",), version=5)
    hostile = unpack(pack(gradient_of(**fields)))
    for _ in range(2):
        run.exchange.handle(1.0, b"0", run.peers.role("actor")[0][1], hostile, BODY)  # type: ignore[arg-type]
        run.exchange.step(1.0)
    run.join("honest")
    for sequence in range(1, 6):
        run.send("honest", sequence=sequence, version=5, episodes=[(7.0, 10, 0.5)], statistics={"entropy": 0.5})
        run.exchange.step(1.0)
        run.counters.version = 5
    status = run.run.status(2.0)
    assert msgspec.convert(unpack_plain(status), RunStatus) == status
    assert status.mean_return == pytest.approx(7.0)
    assert status.frames <= 2 * 1280 + 100
    assert all(math.isfinite(value) for value in status.losses.values())
    assert math.isfinite(status.frames_per_second) and math.isfinite(status.lag_mean)
    assert status.gradients >= 5


def unpack_plain(status: RunStatus) -> dict[str, Any]:
    """As an observer gets it."""
    message = unpack(pack(Status(report=msgspec.to_builtins(status))))
    assert isinstance(message, Status)
    return message.report


def test_a_store_that_refuses_leaves_the_others_of_the_step_alone() -> None:
    run = Run(actors=10)
    run.send("0", b"one")
    assert run.verdict("1", BAD).verdict == "refused"
    run.exchange.step(1.0)
    assert [[body for body, *_ in added] for added, *_ in run.sum.steps] == [[b"one"]]
    with pytest.raises(CodecError):
        run.sum.add(BAD, CODEC, weight=1.0)


def test_what_is_above_the_absolute_limit_is_dropped() -> None:
    run = Run(("staleness.drop_above=1",), version=9, actors=3)
    assert run.send("0", version=8) == []
    assert run.verdict("1", version=7).verdict == "stale"


def synchronous(*assignments: str, actors: int, version: int = 0) -> Run:
    return Run(("staleness.policy=synchronous", *assignments), actors=actors, version=version)


def test_synchronously_a_step_waits_for_all_and_answers_all() -> None:
    run = synchronous(actors=3, version=4)
    for name in ("0", "1"):
        assert run.send(name, version=4) == []
        assert not run.exchange.is_ready and run.exchange.step(1.0) == []
    run.send("2", version=4)
    assert run.exchange.is_ready
    answers = sent(run.exchange.step(1.0), Acknowledgement)
    assert [(answer.verdict, answer.version) for answer in answers] == [("applied", 5)] * 3
    assert run.exchange.deadline == math.inf
    assert run.verdict("0", version=4, sequence=2).verdict == "stale"


def test_a_share_of_the_actors_is_enough_and_the_late_one_is_stale() -> None:
    run = synchronous("staleness.share=0.6", actors=4)
    for name in ("0", "1"):
        run.send(name)
        assert run.exchange.step(1.0) == []
    run.send("2")
    assert len(sent(run.exchange.step(1.0), Acknowledgement)) == 3
    assert run.verdict("3").verdict == "stale"
    assert len(run.sum.steps) == 1


def test_after_the_longest_wait_the_step_is_taken_without_the_others() -> None:
    run = synchronous("staleness.wait_seconds=5", actors=3)
    assert run.exchange.deadline == math.inf and run.exchange.step(1e9) == []
    run.send("0")
    assert run.exchange.deadline == 6.0
    assert run.exchange.step(5.9) == []
    assert len(sent(run.exchange.step(6.0), Acknowledgement)) == 1
    assert run.exchange.deadline == math.inf


def test_who_is_always_too_late_is_waited_for_ever_more_seldom() -> None:
    run, waited = synchronous("staleness.wait_seconds=5", actors=2, version=1), []
    for version in range(1, 20):
        assert run.verdict("1", version=version - 1, sequence=version).verdict == "stale"
        run.send("0", version=version, sequence=version)
        waited += [] if run.exchange.is_ready else [version]
        run.exchange.step(100.0)
    assert waited == [1, 3, 7, 15]


def test_who_leaves_is_not_waited_for_and_what_it_sent_counts_without_standing_for_another() -> None:
    run = synchronous(actors=3)
    run.send("0")
    run.send("1")
    run.peers.leave(b"0")
    assert not run.exchange.is_ready
    run.peers.leave(b"2")
    assert run.exchange.is_ready
    assert len(sent(run.exchange.step(1.0), Acknowledgement)) == 2
    run.send("1", sequence=2, version=1)
    run.peers.leave(b"1")
    assert len(sent(run.exchange.step(1.0), Acknowledgement)) == 1, "nobody is left to wait for"


def test_a_gradient_sent_again_while_it_waits_is_answered_with_its_step_alone() -> None:
    run = synchronous(actors=2)
    run.send("0")
    assert run.send("0") == []
    assert (run.counters.duplicates, len(run.sum.added)) == (1, 1)
    run.send("1")
    assert len(sent(run.exchange.step(1.0), Acknowledgement)) == 2
    assert run.verdict("0").verdict == "duplicate"


def test_a_gradient_sent_again_by_a_new_connection_is_answered_there() -> None:
    run = synchronous(actors=2)
    run.send("0")
    run.peers.moved(b"again", hello_of("0"))
    assert run.send("again") == []
    run.send("1")
    effects = run.exchange.step(1.0)
    assert [len(sent(effects, Acknowledgement, name)) for name in (b"again", b"1", b"0")] == [1, 1, 0]
