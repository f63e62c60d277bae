"""When weights are sent out, and in which form: snapshots, answers to pulls, and broadcasts at a bounded rate.

With exchange.weights = "delta", an actor that joins gets the keyframe (common/wire/bodies/delta.py), and then the
difference of the newest weights to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from common.wire.bodies.broadcast import Broadcast, run_mark
from common.wire.bodies.weights import WeightsFormat
from common.wire.messages import Acknowledgement, Pull
from common.wire.messages import Weights as WeightsMessage
from learner.connections import Progress
from learner.effects import Effect, Publish, Send
from learner.parameters.keyframe import Keyframe
from learner.parameters.pulls import PullQueue, held
from learner.run import Run

if TYPE_CHECKING:
    from learner.parameters.weights import Weights  # imports torch, which a relay does without

KEYFRAME_SECONDS = 1.0
"""Shortest time between two keyframes."""
HOLD_SECONDS = 0.05
"""No broadcast for this long after a keyframe: actors look only every 20 ms, and CONFLATE keeps only the newest one."""
WELCOME_BYTES = 2**18
"""Weights longer than this are not part of a welcome: a joining peer pulls them."""

NEAR_SHARE = 1 / 3
"""Share of its bytes that counts in the egress budget for a subscriber on this host: no link carries them, but copying
them takes time that the learner lacks for gradients."""

Occasion = Literal["broadcast", "answer", "never"]
"""When weights are sent out: broadcast whenever they change; before each answer, for which the actor waits; or never,
if actors hold only environments. With `broadcast` and `answer`, peers that join or pull get them too."""


class WeightPublisher:
    """The only place where bodies of weights are made and counted; each is made once per version."""

    def __init__(self, run: Run, weights: Weights, occasion: Occasion, now: float) -> None:
        spec = run.spec
        self._spec = spec
        self._exchange = spec.settings.exchange
        self._weights = weights
        self._run_stats = run.stats
        self._occasion = occasion
        self._format = WeightsFormat(
            spec.weights_format, weights.vector.numel(), len(weights.vectors()), weights.extras.size
        )
        self._deltas = self._exchange.weights == "delta"
        self._pulls = PullQueue(self._exchange.egress_mbit)
        self._published = run.stats.counters.version
        self._due = now
        self._whole = (-1, b"")
        self._keyframe: Keyframe | None = None
        self._keyframe_due = now
        self._delta = (-1, b"", False)
        self._ahead: dict[bytes, int] = {}
        """Version that was last sent ahead of an answer, by routing id."""
        run.peers.on_leave.append(self._left)

    @property
    def deadline(self) -> float:
        """When `publish` next has something to do; infinite before weights change or a pull waits."""
        return min(self._pulls.deadline, self._due if self._changed else math.inf)

    @property
    def _changed(self) -> bool:
        """Whether there are weights to broadcast."""
        return self._occasion == "broadcast" and self._published != self._newest

    def _left(self, routing_id: bytes) -> None:
        self._pulls.left(routing_id)
        self._ahead.pop(routing_id, None)

    def first(self, now: float, routing_id: bytes) -> tuple[int, bytes | None]:
        """Return version and body of whole weights for a peer that joins.

        The body is None if the peer needs none, or if weights are large: it then pulls them, and waits for its turn.
        """
        if self._occasion == "never" or len(self._whole_weights(now)[1]) > WELCOME_BYTES:
            return self._newest, None
        return self._whole_for(now, routing_id)

    def for_evaluation(self, now: float, routing_id: bytes) -> tuple[int, bytes]:
        """Return version and body of the newest weights, whole; not those of the keyframe, which may be older."""
        if not self._deltas:
            body = self._whole_weights(now)[1]
        else:
            half = self._spec.weights_format == "fp16"
            body = self._format.pack(self._weights.vectors(half=half), self._weights.extras)
        self._pulls.sent(now, routing_id, self._newest, len(body))
        self._spend(now, len(body))
        return self._newest, body

    def under_way(self, now: float, routing_id: bytes, pull: Pull) -> bool:
        """Whether whole weights newer than those that the peer has were sent to it, and may still arrive."""
        return self._pulls.under_way(now, routing_id, pull)

    def pulled(self, now: float, routing_id: bytes, pull: Pull) -> list[Effect]:
        """Answer a pull, now or in `publish` when the budget allows; without a body if the peer has the newest."""
        if held(pull) >= self._newest:
            return [Send(routing_id, WeightsMessage(version=self._newest, epoch=self._spec.epoch))]
        self._pulls.ask(now, routing_id, pull)
        return self._answer_pulls(now)

    def progress(self, progress: Mapping[bytes, Progress]) -> None:
        """Note the progress of the connections on which bytes have moved, by routing id."""
        for routing_id, one in progress.items():
            self._pulls.progress(routing_id, one)

    def _answer_pulls(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while (waiting := self._pulls.next(now)) is not None:
            effects += self._newer(now, *waiting)
        return effects

    def _newer(self, now: float, routing_id: bytes, pull: Pull) -> list[Effect]:
        """Return messages with the newest weights, after the keyframe if the peer lacks it."""
        epoch = self._spec.epoch
        effects: list[Effect] = []
        version, _ = self._whole_weights(now)
        if held(pull) < version:
            body: bytes | None = self._whole_for(now, routing_id)[1]
            effects.append(Send(routing_id, WeightsMessage(version=version, epoch=epoch), body))
        if max(held(pull), version) < self._newest:
            body, _ = self._newest_delta()
            self._spend(now, len(body))
            effects.append(Send(routing_id, WeightsMessage(version=self._newest, epoch=epoch, delta=True), body))
        return effects

    def _whole_for(self, now: float, routing_id: bytes) -> tuple[int, bytes]:
        version, body = self._whole_weights(now)
        self._pulls.sent(now, routing_id, version, len(body))
        self._spend(now, len(body))
        return version, body

    def _spend(self, now: float, size: int) -> None:
        """Charge bytes to the budget, of which pulls get only half while there are weights to broadcast."""
        self._run_stats.sent_weights(now, size)
        self._pulls.spent(now, size, share=0.5 if self._changed else 1.0)

    def ahead_of_answers(self, now: float, effects: list[Effect]) -> list[Effect]:
        """Return the effects, with the newest weights before each acknowledgement if actors wait for their answers.

        An actor gets each version once, however often it repeats itself; if they are lost it pulls them.
        """
        if self._occasion != "answer":
            return effects
        message = WeightsMessage(version=self._newest, epoch=self._spec.epoch)
        together: list[Effect] = []
        for effect in effects:
            match effect:
                case Send(peer, Acknowledgement()) if self._ahead.get(peer) != self._newest:
                    self._ahead[peer] = self._newest
                    body = self._whole_weights(now)[1]
                    self._run_stats.sent_weights(now, len(body))
                    together.append(Send(peer, message, body))
            together.append(effect)
        return together

    def publish(self, now: float, subscribers: int, near: int = 0) -> list[Effect]:
        """Answer waiting pulls, and broadcast the weights if they have changed, as far as the egress budget allows.

        `near`: how many of the subscribers are on this host.
        """
        effects = self._answer_pulls(now)
        if not self._changed or now < self._due:
            return effects
        form, body = self._to_publish(now)
        size = max(1, subscribers) * len(body)
        hold = HOLD_SECONDS if self._deltas and form != "delta" else 0.0
        egress_seconds = size * 8 / (self._exchange.egress_mbit * 1e6) * (2 if self._pulls else 1)
        if near:
            share = 1 - (1 - NEAR_SHARE) * near / max(1, subscribers)
            egress_seconds = min(egress_seconds, max(share * egress_seconds, self._seconds_between(now, subscribers)))
        self._due = now + max(hold, self._exchange.broadcast_ms / 1e3, egress_seconds)
        self._published = self._newest
        self._run_stats.sent_weights(now, size)
        return [
            *effects,
            Publish(Broadcast(run_mark(self._spec.run), self._spec.epoch, self._newest, form, body).pack()),
        ]

    def _seconds_between(self, now: float, actors: int) -> float:
        """Return the mean seconds between two messages of an actor, which has no use for weights more often."""
        rate = self._run_stats.messages_per_second(now)
        return actors / rate if rate else math.inf

    @property
    def _newest(self) -> int:
        return self._run_stats.counters.version

    def _to_publish(self, now: float) -> tuple[str, bytes]:
        if self._keyframe is not None:
            body, coarse = self._newest_delta()
            if not coarse or now < self._keyframe_due:
                return "delta", body
            self._keyframe = None
        return self._spec.weights_format, self._whole_weights(now)[1]

    def _whole_weights(self, now: float) -> tuple[int, bytes]:
        if self._deltas:
            if self._keyframe is None:
                self._keyframe = Keyframe(
                    self._spec.weights_format, self._newest, self._weights.vectors(), self._weights.extras
                )
                self._keyframe_due = now + KEYFRAME_SECONDS
                self._delta = (-1, b"", False)
            return self._keyframe.version, self._keyframe.body
        if self._whole[0] != self._newest:
            half = self._spec.weights_format == "fp16"
            self._whole = (self._newest, self._format.pack(self._weights.vectors(half=half), self._weights.extras))
        return self._whole

    def _newest_delta(self) -> tuple[bytes, bool]:
        """Return the difference of the newest weights to the keyframe, and whether another keyframe is due."""
        assert self._keyframe is not None
        if self._delta[0] != self._newest:
            body, coarse = self._keyframe.delta(self._weights.vectors(), self._weights.extras)
            self._delta = (self._newest, body, coarse)
        return self._delta[1:]
