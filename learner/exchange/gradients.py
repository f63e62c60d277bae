"""Gradients on their way in: each is judged when it comes, and applied with others in one optimizer step.

duplicate: seen before          refused: cannot be used; the third in a row sets the actor aside
stale: too old                  applied: added to the next step, answered when that is taken

Synchronously a step waits for a share of the actors that are in the run, or for its deadline.
"""

from __future__ import annotations

import math

from common.errors import CodecError
from common.rl.moments import Moments
from common.wire.frames import Buffer
from common.wire.messages import Acknowledgement, Contribution, Gradient, Trajectory, Verdict
from learner.effects import Effect, Log, Send, refuse
from learner.exchange import staleness
from learner.peers import Peer, Peers
from learner.run_spec import Plan, Store
from learner.run_stats import Ledger

BAD_IN_A_ROW = 3
"""Unusable gradients after which an actor is set aside."""


class Intake:
    """Bounded by credit: at most `exchange.credit` gradients of each actor can wait here."""

    def __init__(self, plan: Plan, store: Store, ledger: Ledger, peers: Peers) -> None:
        """Nothing waits yet."""
        self._plan, self._store, self._ledger, self._peers = plan, store, ledger, peers
        self._settings = plan.settings
        self._synchronous = plan.settings.staleness.policy == "synchronous"
        self._kind = Trajectory if plan.settings.exchange.kind == "trajectories" else Gradient
        self._changed_over = False
        self._deadline = math.inf
        self._waiting: list[tuple[bytes, Peer, Contribution, float]] = []

    @property
    def deadline(self) -> float:
        """When `step` waits for no more actors; infinite if nothing waits for them."""
        return self._deadline

    @property
    def full(self) -> bool:
        """Whether as many wait as one optimizer step may take, or, synchronously, must take."""
        if self._synchronous:
            return self._share_has_sent()
        return len(self._waiting) >= staleness.coalesce(self._peers.actors, self._settings.exchange.coalesce)

    def change_over(self, plan: Plan) -> None:
        """From now on the run is of trajectories; nothing may wait."""
        self._plan, self._settings = plan, plan.settings
        self._kind, self._changed_over = Trajectory, True

    def take(
        self, now: float, routing_id: bytes, peer: Peer, header: Contribution, body: Buffer | None
    ) -> list[Effect]:
        """Judges one gradient; what is good waits for `step`."""
        if (header.run, header.epoch) != (self._plan.run, self._plan.epoch):
            return [refuse(routing_id, "unknown", f"this is run {self._plan.run}, epoch {self._plan.epoch}")]
        if self._changed_over and isinstance(header, Gradient):
            return [refuse(routing_id, "unknown", "this run is of trajectories now: say hello again")]
        if self._peers.is_duplicate(peer, header.sequence):
            self._ledger.counters.duplicates += 1
            if self._synchronous and self._waits(peer, header):
                return []  # an answer before the step would let the actor play on with what it has
            return [self._answer(routing_id, header, "duplicate")]
        lag = self._ledger.counters.version - header.version
        try:
            self._check(peer, header, lag)
            if body is None:
                raise CodecError("without a body")
            seen = Moments.merge_all(header.moments, self._plan.counted, rollouts=header.count, steps=header.steps)
        except CodecError as error:
            return self._bad(routing_id, peer, header, str(error))
        self._ledger.received(now, header, len(body), lag)
        peer.frames += header.steps
        peer.rate.add(now, header.steps)
        limit = staleness.limit(self._settings.staleness, self._peers.actors, self._store.reach)
        if limit is not None and lag > limit:
            peer.stale += 1
            self._ledger.counters.stale += 1
            return [self._answer(routing_id, header, "stale", f"{lag} versions old, at most {limit} are taken")]
        scale = staleness.weight(self._settings.staleness, lag)
        try:
            self._store.add(body, header.codec, scale, header.count, lag)
        except CodecError as error:
            return self._bad(routing_id, peer, header, str(error))
        self._store.observe(seen)
        peer.bad_in_a_row = 0
        peer.smooth_lag(lag)
        if self._synchronous and not self._waiting:
            self._deadline = now + self._settings.staleness.wait_seconds
        self._waiting.append((routing_id, peer, header, scale))
        return []

    def step(self, now: float) -> list[Effect]:
        """One optimizer step with all that wait, and their acknowledgements; synchronously, once it is time."""
        if not self._waiting or (self._synchronous and now < self._deadline and not self.full):
            return []
        self._deadline = math.inf
        waiting, self._waiting = self._waiting, []
        scale = sum(scale for *_, scale in waiting) / len(waiting)
        learnt = self._store.step(scale=scale, frames=self._ledger.counters.frames)
        self._ledger.stepped(now, learnt)
        effects: list[Effect] = []
        for routing_id, peer, header, _ in waiting:
            peer.gradients += 1
            self._ledger.applied(header)
            effects.append(self._answer(routing_id, header, "applied"))
        return effects

    def _share_has_sent(self) -> bool:
        """Those that left do not count, though what they sent does."""
        present = {_incarnation(peer) for _, peer in self._peers.role("actor")}
        sent = {_incarnation(peer) for _, peer, *_ in self._waiting}
        enough = staleness.quorum(self._settings.staleness.share, len(present))
        return bool(sent) and len(sent & present) >= enough

    def _waits(self, peer: Peer, header: Contribution) -> bool:
        key = (_incarnation(peer), header.sequence)
        return any((_incarnation(one), waiting.sequence) == key for _, one, waiting, _ in self._waiting)

    def _check(self, peer: Peer, header: Contribution, lag: int) -> None:
        """Raises CodecError for what is not of this run's making; such figures are not counted."""
        settings = self._settings
        if not isinstance(header, self._kind):
            raise CodecError(f"this run takes {'trajectories' if self._kind is Trajectory else 'gradients'}")
        if header.model != self._plan.model:
            raise CodecError(f"of model {header.model!r}, this run trains {self._plan.model!r}")
        if header.codec != peer.codec:
            raise CodecError(f"packed as {header.codec!r}, agreed was {peer.codec!r}")
        if lag < 0:
            raise CodecError(f"of version {header.version}, the newest is {self._ledger.counters.version}")
        if header.count > settings.exchange.accumulate:
            raise CodecError(f"of {header.count} rollouts, at most {settings.exchange.accumulate} are added up")
        most = header.count * settings.algorithm.rollout_length * settings.environment.num_envs
        if header.steps > most and not settings.algorithm.whole_episodes:
            raise CodecError(f"of {header.steps} steps, {header.count} rollouts have at most {most}")
        if len(header.episodes) > header.steps:
            raise CodecError(f"of {header.steps} steps that end {len(header.episodes)} episodes")

    def _bad(self, routing_id: bytes, peer: Peer, header: Contribution, why: str) -> list[Effect]:
        peer.refused += 1
        peer.bad_in_a_row += 1
        self._ledger.counters.refused += 1
        text = f"{peer.hello.name} sent a {type(header).__name__.lower()} that cannot be used: {why}"
        self._ledger.warn(text)
        told = Log("warning", text, key=f"bad {peer.hello.name}")
        if peer.bad_in_a_row < BAD_IN_A_ROW:
            return [told, self._answer(routing_id, header, "refused", why)]
        self._peers.set_aside(peer)
        self._peers.leave(routing_id)
        reason = f"{BAD_IN_A_ROW} gradients in a row could not be used, the last one: {why}"
        return [
            told,
            refuse(routing_id, "set-aside", reason),
            Log("error", f"{peer.hello.name} is set aside: {reason}"),
        ]

    def _answer(self, routing_id: bytes, header: Contribution, verdict: Verdict, why: str = "") -> Send:
        answer = Acknowledgement(
            sequence=header.sequence,
            verdict=verdict,
            version=self._ledger.counters.version,
            credit=self._settings.exchange.credit,
            actors=max(1, self._peers.actors),
            why=why,
        )
        return Send(routing_id, answer)


def _incarnation(peer: Peer) -> tuple[str, str]:
    return peer.hello.name, peer.hello.incarnation
