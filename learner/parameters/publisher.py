"""Weights on their way out: snapshots, pulls, and the broadcast at a bounded rate.

With exchange.weights = "delta" whoever joins gets the keyframe (common/wire/bodies/delta.py), and then
what has changed since.
Synchronously there is no broadcast: each answer to a gradient comes behind the weights to play on with. Actors that
only hold environments (exchange.kind = "actions") get no weights at all.
"""

from __future__ import annotations

import math

from common.wire.bodies.broadcast import Broadcast, run_mark
from common.wire.messages import Acknowledgement, Pull, Weights
from learner.effects import Effect, Publish, Send
from learner.run_spec import Plan, Store
from learner.run_stats import Ledger

KEYFRAME_SECONDS = 1.0
"""At least, between two keyframes."""
HOLD_SECONDS = 0.05
"""After a keyframe nothing is broadcast for so long: actors look every 20 ms, and CONFLATE keeps the newest only."""


class Outlet:
    """The one place where bodies of weights are taken from the store and counted."""

    def __init__(self, plan: Plan, store: Store, ledger: Ledger, now: float) -> None:
        """The first broadcast is due with the first change."""
        self._plan, self._store, self._ledger = plan, store, ledger
        self._published = ledger.counters.version
        self._due = now
        self._silent = plan.settings.exchange.kind == "actions"
        self._synchronous = plan.settings.staleness.policy == "synchronous"
        self._deltas = plan.settings.exchange.weights == "delta"
        self._keyframe: tuple[int, bytes] | None = None
        self._keyframe_due = now

    @property
    def deadline(self) -> float:
        """When `publish` has something to do next."""
        if self._synchronous or self._silent:
            return math.inf
        return self._due if self._published != self._ledger.counters.version else math.inf

    def snapshot(self, now: float) -> tuple[int, bytes | None]:
        """Version and body of whole weights for one peer: the newest, or the keyframe; none for who does not act."""
        if self._silent:
            return self._ledger.counters.version, None
        version, body = self._whole(now)
        self._ledger.sent(now, len(body))
        return version, body

    def pulled(self, now: float, routing_id: bytes, pull: Pull) -> list[Effect]:
        """The newest weights, behind the keyframe if the peer lacks it; without a body when it has them."""
        held, effects = pull.version, list[Effect]()
        newest, epoch = self._ledger.counters.version, self._plan.epoch
        version, _ = self._whole(now)
        if held < version:
            effects.append(Send(routing_id, Weights(version=version, epoch=epoch), self.snapshot(now)[1]))
            held = version
        if held < newest:
            body, _ = self._store.delta()
            self._ledger.sent(now, len(body))
            effects.append(Send(routing_id, Weights(version=newest, epoch=epoch, delta=True), body))
        return effects or [Send(routing_id, Weights(version=newest, epoch=epoch))]

    def _whole(self, now: float) -> tuple[int, bytes]:
        if not self._deltas:
            return self._ledger.counters.version, self._store.body(self._plan.weights_format)
        return self._keyframe or self._begin_keyframe(now)

    def _begin_keyframe(self, now: float) -> tuple[int, bytes]:
        version = self._ledger.counters.version
        self._keyframe = version, self._store.keyframe(self._plan.weights_format, version)
        self._keyframe_due = now + KEYFRAME_SECONDS
        return self._keyframe

    def ahead_of_answers(self, now: float, effects: list[Effect]) -> list[Effect]:
        """The effects, with the newest weights before each acknowledgement if the run is synchronous."""
        if not self._synchronous:
            return effects
        message = Weights(version=self._ledger.counters.version, epoch=self._plan.epoch)
        together: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Acknowledgement):
                together.append(Send(effect.peer, message, self.snapshot(now)[1]))
            together.append(effect)
        return together

    def publish(self, now: float, subscribers: int) -> list[Effect]:
        """A broadcast, if the weights changed and the interval and the egress budget allow one."""
        version = self._ledger.counters.version
        if self._synchronous or self._silent or version == self._published or now < self._due:
            return []
        plan, exchange = self._plan, self._plan.settings.exchange
        form, body = self._to_publish(now)
        size = max(1, subscribers) * len(body)
        hold = HOLD_SECONDS if self._deltas and form != "delta" else 0.0
        self._due = now + max(hold, exchange.broadcast_ms / 1e3, size * 8 / (exchange.egress_mbit * 1e6))
        self._published = version
        self._ledger.sent(now, size)
        return [Publish(Broadcast(run_mark(plan.run), plan.epoch, version, form, body).pack())]

    def _to_publish(self, now: float) -> tuple[str, bytes]:
        """Format and body of the newest weights."""
        if self._deltas and self._keyframe is not None:
            body, far = self._store.delta()
            if not far or now < self._keyframe_due:
                return "delta", body
            self._keyframe = None
        return self._plan.weights_format, self._whole(now)[1]
