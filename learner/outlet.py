"""Weights on their way out: snapshots, pulls, and the broadcast at a bounded rate.

Synchronously there is no broadcast: each answer to a gradient comes behind the weights to play on with.
"""

from __future__ import annotations

import math

from common.broadcast import Broadcast, run_mark
from common.messages import Acknowledgement, Pull, Weights
from learner.effects import Effect, Publish, Send
from learner.ledger import Ledger
from learner.plan import Plan, Store


class Outlet:
    """The one place where bodies of weights are taken from the store and counted."""

    def __init__(self, plan: Plan, store: Store, ledger: Ledger, now: float) -> None:
        """The first broadcast is due with the first change."""
        self._plan, self._store, self._ledger = plan, store, ledger
        self._published = ledger.counters.version
        self._due = now
        self._synchronous = plan.settings.staleness.policy == "synchronous"

    @property
    def deadline(self) -> float:
        """When `publish` has something to do next."""
        if self._synchronous:
            return math.inf
        return self._due if self._published != self._ledger.counters.version else math.inf

    def snapshot(self, now: float) -> bytes:
        """The weights for one peer."""
        body = self._store.body(self._plan.weights_format)
        self._ledger.sent(now, len(body))
        return body

    def pulled(self, now: float, routing_id: bytes, pull: Pull) -> Send:
        """The newest weights, without a body when the peer has them."""
        version = self._ledger.counters.version
        message = Weights(version=version, epoch=self._plan.epoch)
        return Send(routing_id, message, self.snapshot(now) if pull.version < version else None)

    def ahead_of_answers(self, now: float, effects: list[Effect]) -> list[Effect]:
        """The effects, with the newest weights before each acknowledgement if the run is synchronous."""
        if not self._synchronous:
            return effects
        message = Weights(version=self._ledger.counters.version, epoch=self._plan.epoch)
        together: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Acknowledgement):
                together.append(Send(effect.peer, message, self.snapshot(now)))
            together.append(effect)
        return together

    def publish(self, now: float, subscribers: int) -> list[Effect]:
        """A broadcast, if the weights changed and the interval and the egress budget allow one."""
        version = self._ledger.counters.version
        if self._synchronous or version == self._published or now < self._due:
            return []
        plan, exchange = self._plan, self._plan.settings.exchange
        body = self._store.body(plan.weights_format)
        size = max(1, subscribers) * len(body)
        self._due = now + max(exchange.broadcast_ms / 1e3, size * 8 / (exchange.egress_mbit * 1e6))
        self._published = version
        self._ledger.sent(now, size)
        return [Publish(Broadcast(run_mark(plan.run), plan.epoch, version, plan.weights_format, body).pack())]
