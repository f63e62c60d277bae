from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from common.errors import CodecError
from common.rl.episode import Episode
from common.wire.frames import Buffer
from common.wire.messages import Act, Goodbye, Observe, Refused, Welcome
from learner.effects import Effect, Send
from learner.peer import Peer
from tests.helpers.run import (
    BAD,
    NotedSum,
    core_of,
    exchange_of,
    gradient_of,
    hello_of,
    learner_of,
    logged,
    run_of,
    sent,
    settings_of,
)

COPIES, GROUPS, ROLLOUT = 4, 2, 3


class NotedServer:
    """A group's memory is the list of what it showed; its actions are the number of the pass."""

    max_bytes = 1000

    def __init__(self) -> None:
        self.opened: list[tuple[int, int, int]] = []
        self.passes: list[tuple[list[list[bytes]], int]] = []
        self.renewed = 0

    def open(self, seed: int, group: int, step: int) -> list[bytes]:
        self.opened.append((seed, group, step))
        return []

    def observe(self, memory: list[bytes], body: Buffer, *, begins: bool, source: str) -> int | None:
        if bytes(body) == BAD:
            raise CodecError("it does not decode")
        if begins:
            memory.clear()
        memory.append(bytes(body))
        return len(self.passes) - ROLLOUT if len(memory) > 1 and len(memory) % ROLLOUT == 1 else None

    def renew(self) -> None:
        self.renewed += 1

    def act(self, memories: Sequence[list[bytes]], version: int) -> list[bytes]:
        self.passes.append(([list(memory) for memory in memories], version))
        return [str(len(self.passes)).encode()] * len(memories)


@dataclass
class Run:
    """Actors `a` and `b`, of two groups of two each."""

    assignments: tuple[str, ...] = ("exchange.batch_wait_ms=10",)
    now: float = 100.0
    server: NotedServer = field(default_factory=NotedServer)
    trainer: NotedSum = field(default_factory=NotedSum)

    def __post_init__(self) -> None:
        chosen = settings_of("exchange.kind='actions'", f"environment.num_envs={COPIES}", *self.assignments)
        self.run = run_of(chosen)
        self.peers, self.stats = self.run.peers, self.run.stats
        self.exchange = exchange_of(self.run, self.trainer, self.server)
        for name in "ab":
            self.join(name)

    def join(self, name: str) -> Peer:
        return self.peers.join(name.encode(), hello_of(name), 0.0)[0]

    def observe(self, name: str, group: int, step: int, body: bytes | None = b"o", **changed: Any) -> list[Effect]:
        peer = self.peers.get(name.encode())
        assert peer is not None
        begins = changed.pop("begins", step == 1)
        steps = 0 if begins else COPIES // GROUPS
        fields = {"run": "a-run", "epoch": 1, "steps": steps, "emulator_frames": 4 * steps} | changed
        message = Observe(group=group, step=step, begins=begins, **fields)
        return self.exchange.handle(self.now, name.encode(), peer, message, body)

    def begin(self, groups: Sequence[tuple[str, int]] = (("a", 0), ("a", 1), ("b", 0), ("b", 1))) -> None:
        """All these groups have begun, and have their first actions."""
        for name, group in groups:
            self.observe(name, group, 1)
        self.wait()

    def wait(self, seconds: float = 0.01) -> list[Effect]:
        self.now += seconds
        return self.exchange.answer(self.now)


def acts(effects: Sequence[Effect]) -> list[tuple[str, int, int, Any]]:
    """Actor, group, step, body of each answer."""
    return [
        (effect.peer.decode(), effect.message.group, effect.message.step, effect.body)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, Act)
    ]


def test_those_that_wait_are_answered_together_after_the_wait() -> None:
    run = Run()
    run.begin()
    assert run.observe("a", 0, 2) == []
    run.now += 0.004
    assert run.observe("b", 1, 2) == []
    assert run.exchange.deadline == pytest.approx(run.now + 0.006)
    assert run.exchange.answer(run.now) == []
    assert acts(run.wait()) == [("a", 0, 2, b"3"), ("b", 1, 2, b"3")]
    assert run.exchange.deadline == math.inf
    assert run.exchange.answer(run.now + 1) == []


def test_all_groups_there_are_make_a_pass_at_once() -> None:
    run = Run()
    assert acts(run.observe("a", 0, 1)) == [("a", 0, 1, b"1")], "it is the only one so far"
    run.observe("a", 1, 1)
    assert acts(run.observe("a", 0, 2)) == [("a", 1, 1, b"2"), ("a", 0, 2, b"2")]


def test_a_full_batch_is_a_pass_at_once() -> None:
    run = Run(("exchange.batch=4", "exchange.batch_wait_ms=10"))
    run.begin()
    assert run.observe("a", 0, 2) == []
    assert acts(run.observe("b", 0, 2)) == [("a", 0, 2, b"4"), ("b", 0, 2, b"4")]


def test_without_a_wait_those_that_have_come_are_taken_together() -> None:
    run = Run(("exchange.batch_wait_ms=0",))
    run.begin()
    run.observe("a", 0, 2)
    run.observe("b", 0, 2)
    assert len(acts(run.wait(0.0))) == 2


def test_what_is_sent_again_is_answered_as_it_was() -> None:
    run = Run()
    run.begin()
    run.observe("a", 0, 2, b"second")
    assert run.observe("a", 0, 2, b"second") == [], "it waits"
    (first,) = run.wait()
    assert run.observe("a", 0, 2, b"second") == [first]
    assert run.observe("a", 0, 1, b"o", begins=False) == [], "long past"
    assert run.server.passes[-1][0] == [[b"o", b"second"]], "taken in once"
    assert run.stats.counters.duplicates == 3
    assert run.stats.counters.frames == 2


def test_frames_episodes_and_bytes_are_counted() -> None:
    run = Run()
    run.begin()
    run.observe("a", 0, 2, b"12345", episodes=[Episode(7.0, 2, 0.5)])
    counters = run.stats.counters
    assert (counters.frames, counters.emulator_frames, counters.episodes) == (2, 8, 1)
    assert counters.gradient_bytes == 4 * 1 + 5
    run.wait()
    assert (counters.action_bytes, counters.weight_bytes) == (4 * 1 + 1, 0)
    assert run.stats.window.mean_return == 7.0
    peer = run.peers.get(b"a")
    assert peer is not None
    assert peer.frames == 2


def test_complete_rollouts_go_into_one_step_together() -> None:
    run = Run(("exchange.coalesce=2",))
    run.trainer.learnt = {"entropy": 0.5}
    run.begin()
    assert run.exchange.step(run.now) == []
    assert run.trainer.steps == []
    for step in range(2, 2 + ROLLOUT):
        run.observe("a", 0, step)
        run.observe("b", 1, step)
        run.wait()
    assert run.exchange.is_ready
    run.exchange.step(run.now)
    assert not run.exchange.is_ready
    ((_, scale, frames),) = run.trainer.steps
    assert (scale, frames) == (1.0, 4 * ROLLOUT), "whole steps, annealed by the frames of the run"
    assert run.stats.counters.version == 1
    assert run.stats.counters.gradients == 2
    assert run.run.metrics(run.now)["entropy"] == 0.5
    assert [peer.gradients for _, peer in run.peers.role("actor")] == [1, 1]


def test_where_no_rollout_of_a_step_has_a_finite_gradient_this_is_told_and_nobody_is_blamed() -> None:
    run = Run()
    run.begin()
    for step in range(2, 2 + ROLLOUT):
        run.observe("a", 0, step)
        run.observe("b", 1, step)
        run.wait()
    run.trainer.left_out, run.trainer.to_blame = {0: "why", 1: "why"}, False
    (line,) = logged(run.exchange.step(run.now))
    assert line.startswith("warning: 2 rollouts together: no finite gradient of any of them; the weights are too large")
    assert (run.stats.vital_signs().not_finite, run.stats.counters.refused) == (1, 0)


def test_passes_are_made_with_the_version_there_is() -> None:
    run = Run()
    run.begin([("a", 0)])
    run.stats.counters.version = 5
    run.observe("a", 0, 2)
    assert [version for _, version in run.server.passes] == [0, 5]


def test_a_lost_actors_groups_are_dropped_and_nobody_waits_for_them() -> None:
    run = Run()
    run.begin()
    run.observe("a", 0, 2)
    run.observe("b", 0, 2)
    run.exchange.left(b"a")
    assert acts(run.wait()) == [("b", 0, 2, b"3")]
    assert acts(run.observe("b", 1, 2)) == []
    assert acts(run.observe("b", 0, 3)) == [("b", 1, 2, b"4"), ("b", 0, 3, b"4")], "all groups there are"


def test_a_group_that_is_not_known_is_told_to_join_again_and_begins() -> None:
    run = Run()
    (refusal,) = sent(run.observe("a", 0, 17), Refused)
    assert refusal.code == "unknown"
    assert run.server.opened == []
    assert acts(run.observe("a", 0, 18, begins=True)) == [("a", 0, 18, b"1")]
    assert run.server.opened == [(0, 0, 18)]
    (refusal,) = sent(run.observe("a", 0, 20), Refused)
    assert refusal.code == "unknown", "a step is missing"


def test_a_group_that_begins_anew_keeps_its_memory_but_not_what_is_in_it() -> None:
    run = Run()
    run.begin()
    run.observe("a", 0, 2, b"half")
    run.observe("a", 0, 3, b"anew", begins=True)
    assert len(acts(run.wait())) == 1, "it waits once"
    assert run.server.passes[-1][0] == [[b"anew"]]
    assert len([one for one in run.server.opened if one[:2] == (0, 0)]) == 1


def test_each_group_is_opened_with_its_actors_seed() -> None:
    run = Run()
    run.begin()
    assert run.server.opened == [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)]


def test_an_actor_that_has_played_replaces_nobody_when_it_comes_back() -> None:
    run = Run()
    first, second = (hello_of("c", launcher="box", incarnation=one) for one in ("c-1", "c-2"))
    run.peers.join(b"c", first, 0.0)
    run.observe("c", 0, 1)
    run.peers.leave(b"c")
    run.peers.join(b"c-2", second, 0.0)
    assert run.peers.replaced_by(first) == []


@pytest.mark.parametrize("changed", [{"run": "another"}, {"epoch": 2}])
def test_another_run_or_epoch_is_told_to_join_again(changed: dict[str, Any]) -> None:
    run = Run()
    (refusal,) = sent(run.observe("a", 0, 1, **changed), Refused)
    assert refusal.code == "unknown"
    assert run.server.opened == []


@pytest.mark.parametrize(
    ("group", "body", "changed", "why"),
    [
        (0, BAD, {}, "it does not decode"),
        (0, None, {}, "no body"),
        (2, b"o", {"begins": True}, "group 2, there are 2"),
        (0, b"o", {"steps": 3}, "3 steps, the group takes at most 2"),
        (0, b"o", {"begins": True, "steps": 1}, "1 steps, the group takes at most 0"),
        (0, b"o", {"steps": 1, "episodes": [(1.0, 1, 1.0)] * 2}, "1 steps that end 2 episodes"),
        (0, b"o", {"steps": 1, "emulator_frames": 5}, "of 5 frames, 1 steps have at most 4 each"),
    ],
)
def test_who_sends_what_cannot_be_used_is_quarantined(
    group: int, body: bytes | None, changed: dict[str, Any], why: str
) -> None:
    run = Run()
    run.begin()
    effects = run.observe("a", group, 2, body, **changed)
    (refusal,) = sent(effects, Refused)
    assert refusal.code == "quarantined"
    assert why in refusal.reason
    assert why in logged(effects)[0]
    assert run.peers.quarantine.reason(2.0, "", "a", proven=True)
    assert run.peers.get(b"a") is None
    assert run.stats.counters.refused == 1
    assert run.stats.counters.frames == 0
    run.observe("b", 0, 2)
    assert len(acts(run.observe("b", 1, 2))) == 2, "its groups are gone"


def test_the_core_hands_observations_on_and_gives_no_weights() -> None:
    run = Run(("exchange.batch_wait_ms=10", f"environment.num_envs={2 * COPIES}"))
    core = core_of(run_of(run.run.spec.settings), run.trainer, 0.0, run.server)
    *_, welcome = core.handle(0.0, b"a", hello_of("a", codecs=[]), None)
    assert isinstance(welcome, Send) and isinstance(welcome.message, Welcome)
    assert (welcome.body, welcome.message.codec) == (None, "")
    for group in range(GROUPS):
        core.handle(0.0, b"a", Observe(run="a-run", epoch=1, group=group, step=1, begins=True), b"o")
    core.answer(0.5)
    for step in range(2, 2 + ROLLOUT):
        core.handle(1.0, b"a", Observe(run="a-run", epoch=1, group=0, step=step), b"o")
        assert core.deadline <= 1.01
        assert acts(core.answer(1.0)) == []
        assert len(acts(core.answer(1.02))) == 1
    assert len(run.trainer.steps) == 1, "with two actors a step takes one rollout"
    (refusal,) = sent(core.handle(1.0, b"a", gradient_of(), b"gradient"), Refused)
    assert refusal.code == "role"
    core.handle(1.0, b"a", Goodbye(reason="enough"), None)
    core.handle(1.0, b"a", hello_of("a"), None)
    (refusal,) = sent(core.handle(1.0, b"a", Observe(run="a-run", epoch=1, group=0, step=9), b"o"), Refused)
    assert refusal.code == "unknown", "its groups left with it"


def test_without_a_network_observations_are_refused() -> None:
    core, _ = learner_of()
    core.handle(0.0, b"a", hello_of("a"), None)
    (refusal,) = sent(core.handle(0.0, b"a", Observe(run="a-run", epoch=1, group=0, step=1), b"o"), Refused)
    assert refusal.code == "role"


def test_a_step_ahead_of_its_actions_is_not_taken() -> None:
    run = Run()
    run.begin()
    run.observe("a", 0, 2)
    (refusal,) = sent(run.observe("a", 0, 3), Refused)
    assert "ahead of the actions" in refusal.reason


def test_a_gpu_that_is_still_learning_holds_up_nobody() -> None:
    run = Run(("algorithm.rollout_length=3", "exchange.batch_wait_ms=0"))
    run.begin((("a", 0), ("b", 0)))
    run.trainer.is_over = False
    for step in range(2, 5):
        for name in "ab":
            run.observe(name, 0, step)
        run.wait(0.0)
    assert run.exchange.step(run.now) == []
    assert (len(run.trainer.steps), run.stats.counters.version) == (1, 0)
    assert run.exchange.deadline == pytest.approx(run.now + 0.0005), "it is looked at again soon"
    assert not run.exchange.is_ready
    for step in range(5, 8):
        answers = [acts(run.observe(name, 0, step)) for name in "ab"]
        assert len([one for each in answers for one in each]) == 2, "they go on playing"
    run.exchange.step(run.now)
    assert len(run.trainer.steps) == 1, "one at a time"
    run.trainer.is_over = True
    assert run.exchange.is_ready
    run.exchange.step(run.now)
    assert (len(run.trainer.steps), run.stats.counters.version, run.server.renewed) == (2, 2, 2)
    assert run.exchange.deadline == math.inf


def test_what_is_wrong_with_the_device_is_told() -> None:
    run = Run()
    run.trainer.troubles = ["too little memory"]
    assert run.exchange.named() == ["too little memory"]
