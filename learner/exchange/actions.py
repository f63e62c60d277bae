"""Groups of environments that wait for actions: messages and time in, effects out (exchange.kind = "actions").

    unknown --observe that begins--> waiting --pass--> answered --observe of the next step--> waiting
        any --observe that begins--> waiting                any --its actor is gone--> unknown

A pass is due when `exchange.batch` observations wait, when the oldest has waited `exchange.batch_wait_ms`, or when all
groups there are wait. What a group sends again is answered as it was: nothing is stepped, and nothing learnt, twice.
A group that is not known here, after a restart say, is told to join again, and begins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from common.errors import CodecError
from common.wire.bodies.observations import group_sizes
from common.wire.frames import Buffer
from common.wire.messages import Act, Observe
from learner.effects import Effect, Log, Send, refuse
from learner.exchange import staleness
from learner.peers import Peer, Peers
from learner.run_spec import Plan, Store
from learner.run_stats import Ledger


class Network(Protocol):
    """What acts (learner/exchange/policy_server.py); what it keeps of a group is its own affair."""

    def open(self, seed: int, group: int) -> Any:
        """The memory of a new group."""

    def observe(self, memory: Any, body: Buffer, *, begins: bool) -> int | None:
        """Takes in what a group shows. If a rollout is complete with it, that is added to the store's next step, and
        the version that acted is returned. Raises CodecError with nothing taken in."""

    def act(self, memories: Sequence[Any], version: int) -> list[bytes]:
        """One pass: actions for each, as they travel."""


@dataclass
class _Group:
    peer: Peer
    memory: Any
    step: int
    since: float
    """When its observations came."""
    answer: bytes | None = None
    """To `step`; None while it waits."""


class Inference:
    """Bounded by its actors: each has `exchange.groups` groups, and each group waits with one batch of observations."""

    def __init__(self, plan: Plan, network: Network, store: Store, ledger: Ledger, peers: Peers) -> None:
        """Nobody waits yet."""
        self._plan, self._network, self._store = plan, network, store
        self._ledger, self._peers = ledger, peers
        exchange = plan.settings.exchange
        self._sizes = group_sizes(plan.settings.environment.num_envs, exchange.groups)
        self._batch, self._wait = exchange.batch, exchange.batch_wait_ms / 1e3
        self._groups: dict[tuple[bytes, int], _Group] = {}
        self._waiting: dict[tuple[bytes, int], _Group] = {}
        self._rows = 0
        self._learnt: list[Peer] = []
        """Whose rollouts wait for the next optimizer step."""

    @property
    def deadline(self) -> float:
        """When `answer` has something to do."""
        return next((group.since for group in self._waiting.values()), math.inf) + self._wait

    def take(self, now: float, routing_id: bytes, peer: Peer, message: Observe, body: Buffer | None) -> list[Effect]:
        """One group's observations; all that wait are answered if that makes a full pass."""
        if (message.run, message.epoch) != (self._plan.run, self._plan.epoch):
            return [refuse(routing_id, "unknown", f"this is run {self._plan.run}, epoch {self._plan.epoch}")]
        key = (routing_id, message.group)
        group = self._groups.get(key)
        if group is not None and message.step <= group.step:
            return self._again(routing_id, message, group)
        if not message.begins and (group is None or message.step != group.step + 1):
            return [refuse(routing_id, "unknown", f"of its group {message.group} nothing is known: join again")]
        try:
            self._check(message)
            if body is None:
                raise CodecError("no body")
            if group is None:
                seed = self._plan.actor_seed(peer.seed)
                self._peers.took_part(peer)
                group = _Group(peer, self._network.open(seed, message.group), message.step, now)
            elif group.answer is None and not message.begins:
                raise CodecError(f"step {message.step} ahead of the actions for it")
            acted = self._network.observe(group.memory, body, begins=message.begins)
        except CodecError as error:
            return self._bad(routing_id, peer, str(error))
        self._count(now, peer, message, memoryview(body).nbytes, acted)
        self._leave_waiting(key)
        group.step, group.since, group.answer = message.step, now, None
        self._groups[key] = self._waiting[key] = group
        self._rows += self._sizes[message.group]
        return self._pass(now) if self._full else []

    def answer(self, now: float) -> list[Effect]:
        """Actions for all that wait, if the oldest has waited long enough."""
        return self._pass(now) if now >= self.deadline else []

    def step(self, now: float) -> list[Effect]:
        """One optimizer step with the rollouts that are complete."""
        if not self._learnt:
            return []
        learnt, self._learnt = self._learnt, []
        statistics = self._store.step(scale=1.0, frames=self._ledger.counters.frames)
        self._ledger.stepped(now, statistics)
        for peer in learnt:
            peer.gradients += 1
        self._ledger.counters.gradients += len(learnt)
        return []

    @property
    def ripe(self) -> bool:
        """Whether as many rollouts wait as one optimizer step may take."""
        most = staleness.coalesce(self._peers.actors, self._plan.settings.exchange.coalesce)
        return len(self._learnt) >= most

    def left(self, routing_id: bytes) -> None:
        """An actor is gone: its half rollouts are dropped."""
        for key in [key for key in self._groups if key[0] == routing_id]:
            self._leave_waiting(key)
            del self._groups[key]

    @property
    def _full(self) -> bool:
        return self._rows >= self._batch or len(self._waiting) == len(self._groups)

    def _pass(self, now: float) -> list[Effect]:
        waiting, self._waiting, self._rows = self._waiting, {}, 0
        if not waiting:
            return []
        memories = [group.memory for group in waiting.values()]
        effects: list[Effect] = []
        bodies = self._network.act(memories, self._ledger.counters.version)
        for (key, group), body in zip(waiting.items(), bodies, strict=True):
            group.answer = body
            effects.append(self._act(now, key, group, body))
        return effects

    def _act(self, now: float, key: tuple[bytes, int], group: _Group, body: bytes) -> Send:
        self._ledger.sent(now, len(body))
        return Send(key[0], Act(group=key[1], step=group.step), body)

    def _again(self, routing_id: bytes, message: Observe, group: _Group) -> list[Effect]:
        self._ledger.counters.duplicates += 1
        if message.step < group.step or group.answer is None:
            return []
        return [Send(routing_id, Act(group=message.group, step=message.step), group.answer)]

    def _leave_waiting(self, key: tuple[bytes, int]) -> None:
        if self._waiting.pop(key, None) is not None:
            self._rows -= self._sizes[key[1]]

    def _check(self, message: Observe) -> None:
        """Raises CodecError for figures that are not possible under the run's settings; they are not counted."""
        if message.group >= len(self._sizes):
            raise CodecError(f"group {message.group}, there are {len(self._sizes)}")
        most = 0 if message.begins else self._sizes[message.group]
        if message.steps > most:
            raise CodecError(f"{message.steps} steps, the group takes at most {most}")
        if len(message.episodes) > message.steps:
            raise CodecError(f"{message.steps} steps that end {len(message.episodes)} episodes")

    def _count(self, now: float, peer: Peer, message: Observe, size: int, acted: int | None) -> None:
        self._ledger.played(now, message, size)
        peer.frames += message.steps
        peer.rate.add(now, message.steps)
        if acted is not None:
            lag = max(0, self._ledger.counters.version - acted)
            self._ledger.lagged(now, lag)
            peer.smooth_lag(lag)
            self._learnt.append(peer)

    def _bad(self, routing_id: bytes, peer: Peer, why: str) -> list[Effect]:
        """Sent again it would be as bad: the two ends differ."""
        peer.refused += 1
        self._ledger.counters.refused += 1
        self._peers.set_aside(peer)
        self._peers.leave(routing_id)
        self.left(routing_id)
        text = f"{peer.hello.name} sent observations that cannot be used: {why}"
        self._ledger.warn(text)
        reason = f"its observations cannot be used: {why}; are environment and a3cd the same on both hosts?"
        return [Log("error", f"{text}; it is set aside"), refuse(routing_id, "set-aside", reason)]
