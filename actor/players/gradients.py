"""A player that computes the gradient of each rollout, and packs their sum."""

import math

import numpy as np

from actor.players.rollouts import RolloutPlayer
from actor.rollout_summary import RolloutSummary
from common.errors import NonFiniteError
from common.rl.algorithms.registry import METHODS
from common.rl.algorithms.statistics import Statistics
from common.rl.environments.base import MakeEnvironments
from common.rl.gradient import gradient
from common.rl.rollout import Rollout
from common.settings.codec_names import feeds_back
from common.settings.sections import Settings
from common.wire.codecs.feedback import RESIDUAL_ROLLOUTS, ErrorFeedback
from common.wire.codecs.registry import make as make_codec
from common.wire.frames import Buffer
from common.wire.messages import Gradient, Welcome


class GradientPlayer(RolloutPlayer):
    """Adds up gradients until they are packed."""

    contribution = Gradient

    def __init__(
        self, welcome: Welcome, settings: Settings, body: Buffer | None, make: MakeEnvironments | None = None
    ) -> None:
        super().__init__(welcome, settings, body, make)
        self._algorithm = settings.algorithm
        self._epochs = settings.algorithm.epochs if METHODS[settings.algorithm.kind].repeats else 1
        self._again: tuple[Rollout, int] | None = None
        """A rollout whose gradient is to be computed again (PPO), and how many more times."""
        exchange = settings.exchange
        self._codec = make_codec(welcome.codec, self.model.size, exchange.top_k)
        self._feedback: ErrorFeedback | None = None
        if feeds_back(exchange.error_feedback, welcome.codec):
            self._feedback = ErrorFeedback(self._codec, RESIDUAL_ROLLOUTS * (self._algorithm.max_grad_norm or math.inf))
        self._sum = np.zeros(self.model.size, np.float32)

    def advance(self, until: float) -> bool:
        """Plays a rollout and adds its gradient; each further gradient of it (PPO) takes one more call."""
        repeated = self._again
        if repeated is None:
            played = self.play(until)
            if played is None:
                return False
            rollout, summary = played
            left = self._epochs
        else:
            rollout, left = repeated
            summary = RolloutSummary(count=1)  # its steps were counted with its first gradient
        left -= 1
        statistics = self._add_gradient(rollout)
        summary.statistics = statistics._asdict()
        if self._epochs > 1:
            # PPO's ratio already accounts for the policy that acted, so the lag counts from this gradient's weights.
            summary.version = self.weights.version
        self._again = (rollout, left) if left else None
        self._summary.add(summary)
        return True

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:
        feedback = self._feedback
        body = self._codec.encode(self._sum) if feedback is None else feedback.encode(self._sum, sequence)
        self._sum.fill(0)
        return self._take_summary(), body

    def answered(self, sequence: int, *, dropped: bool) -> None:
        if self._feedback is not None:
            self._feedback.answered(sequence, dropped=dropped)

    def restart(self) -> None:
        super().restart()
        self._again = None

    def forget(self) -> None:
        super().forget()
        self._sum.fill(0)
        self._again = None
        if self._feedback is not None:
            self._feedback.reset()

    def _add_gradient(self, rollout: Rollout) -> Statistics:
        if self._algorithm.refresh:
            self.weights.load()
        statistics = gradient(self.model, rollout, self._algorithm)
        if not math.isfinite(statistics.gradient_norm):
            raise NonFiniteError("the gradient is not finite: rollout dropped")
        self._sum += self.model.gradient
        return statistics
