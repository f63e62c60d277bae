"""The sum of a site's gradients: to an actor's core it is a player, but other hosts play its rollouts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from actor.players.base import Player
from actor.rollout_summary import RolloutSummary
from common.errors import CodecError, TorchMissingError
from common.rl.moments import Moments
from common.settings.codec_names import feeds_back
from common.settings.exchanges import MAX_LIST_ITEMS, most_in_sum
from common.wire.codecs.arithmetic import add_times, square_sum
from common.wire.codecs.base import Floats
from common.wire.codecs.feedback import RESIDUAL_ROLLOUTS, ErrorFeedback
from common.wire.codecs.registry import PackedCodec, make
from common.wire.frames import Buffer
from common.wire.messages import MAX_FRAMES, MAX_STEPS, Gradient
from learner.parameters.gradient_bound import GradientBound
from learner.parameters.moments_guard import MomentsGuard
from learner.run import RunSpec
from relay.weights import KeptWeights

if TYPE_CHECKING:
    from learner.parameters.agreement import Agreement  # needs torch

LARGEST_NORM = 1e12
"""Largest norm of a gradient where the run does not clip: even a sum of many, plus the codec's error feedback, stays
within what a learner accepts (`learner.parameters.gradient_bound`)."""


@dataclass
class SumSummary(RolloutSummary):
    """Adds to the header that the gradient is a sum, and which actors (by number) played its episodes."""

    players: list[int] = field(default_factory=list)
    summed: bool = True


class SumPlayer(Player):
    """Adds up gradients until they are packed; weights are only handed to `KeptWeights`."""

    contribution = Gradient

    def __init__(self, spec: RunSpec, codec: str, weights: KeptWeights) -> None:
        """`codec`: for the sum, as the learner chose it. Raises TorchMissingError."""
        exchange, longest = spec.settings.exchange, spec.settings.algorithm.max_grad_norm
        self._most = most_in_sum(spec.settings)
        self._size, self._top_k = spec.parameters, exchange.top_k
        self._weights = weights
        self._codecs: dict[str, PackedCodec] = {}
        self._codec = self._codec_of(codec)
        self._bound = GradientBound(longest, exchange.error_feedback)
        self._agreement = _agreement(self._size) if exchange.robust == "agreement" else None
        self._feedback: ErrorFeedback | None = None
        if feeds_back(exchange.error_feedback, codec):
            self._feedback = ErrorFeedback(self._codec, RESIDUAL_ROLLOUTS * (longest or math.inf))
        self._moments_guard = MomentsGuard()
        self._scratch: Floats = np.zeros(self._size, np.float32)
        self._sum: Floats = np.zeros(self._size, np.float32)
        self._moments = Moments.empty(spec.counted)
        self._summary = SumSummary()

    @property
    def pending(self) -> int:
        return self._summary.count

    def has_room(self, header: Gradient) -> bool:
        """Returns whether a gradient with this header fits: a longer sum is no better, and a header has bounds."""
        now = self._summary
        return not now.count or (
            now.count + header.count <= self._most
            and now.steps + header.steps <= MAX_STEPS
            and now.emulator_frames + header.emulator_frames <= MAX_FRAMES
            and len(now.episodes) + len(header.episodes) <= MAX_LIST_ITEMS
        )

    def add(
        self, summary: RolloutSummary, codec: str, body: Buffer, seen: Moments, *, source: str, number: int
    ) -> None:
        """Adds a gradient of the actor with the name `source` and this number; `seen`: the moments of its rollouts.

        Raises CodecError, with nothing added, if the body does not decode, holds NaN or infinity, or has a larger norm
        than any honest gradient; AgainstOthersError for the gradient of an actor that is left out.
        """
        gradient = self._codec_of(codec).read(body, self._scratch)
        norm = math.sqrt(square_sum(gradient))
        self._bound.check(norm, codec, summary.count, self._size)
        if norm > LARGEST_NORM:
            raise CodecError(f"of norm {norm:.4g}: a sum with it would be too long")
        moments = self._with(source, seen)
        factor = (
            1.0 if self._agreement is None else self._judged(self._agreement, gradient, norm, summary.count, source)
        )
        add_times(self._sum, gradient, factor)
        self._moments = moments
        self._summary.add(summary)
        self._summary.players += [number] * len(summary.episodes)

    def _with(self, source: str, seen: Moments) -> Moments:
        """Returns the moments merged with `seen`; raises CodecError if the learner would not accept them."""
        if not seen.count:
            return self._moments
        merged = self._moments.merged(self._moments_guard.believed(source, seen))
        return Moments.parse(merged.plain(), merged.means.size)

    def _judged(self, agreement: Agreement, gradient: Floats, norm: float, count: int, source: str) -> float:
        """Returns the factor by which to shorten a gradient."""
        import torch  # installed, because the agreement needs it

        if gradient is not self._scratch:  # it may be read-only memory
            np.copyto(self._scratch, gradient)
        return agreement.judge(source, torch.from_numpy(self._scratch), norm, count)

    @property
    def keyframe(self) -> int:
        return self._weights.keyframe

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:
        return self._weights.load(version, body, delta=delta)

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:
        feedback = self._feedback
        body = self._codec.encode(self._sum) if feedback is None else feedback.encode(self._sum, sequence)
        summary = self._summary
        summary.moments = [self._moments.plain()] if self._moments.count else []
        self._begin()
        return summary, bytes(body)

    def answered(self, sequence: int, *, dropped: bool) -> None:
        if self._feedback is not None:
            self._feedback.answered(sequence, dropped=dropped)

    def forget(self) -> None:
        self._begin()
        if self._feedback is not None:
            self._feedback.reset()

    def close(self) -> None:
        pass

    def _begin(self) -> None:
        self._sum.fill(0)
        self._moments = Moments.empty(self._moments.means.size)
        self._summary = SumSummary()

    def _codec_of(self, name: str) -> PackedCodec:
        if name not in self._codecs:
            self._codecs[name] = make(name, self._size, self._top_k)
        return self._codecs[name]


def _agreement(size: int) -> Agreement:
    try:
        from learner.parameters.agreement import Agreement
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise TorchMissingError('a relay of a run with exchange.robust = "agreement"') from error
    return Agreement(size)
