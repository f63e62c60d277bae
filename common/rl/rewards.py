"""Scale and clip a rollout's rewards, and collect the moments for running statistics."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import NonFiniteError
from common.rl.moments import Moments
from common.rl.normalization import Normalization
from common.settings.sections import Settings

UNCHANGED = Normalization(0, rewards=False)
NO_EXTRAS = np.zeros(0, np.float32)


@dataclass(eq=False)
class RewardTransform:
    """Scales and clips the rewards of one batch of environments.

    It is applied to consecutive rollouts: discounted sums carry over from one rollout to the next.
    """

    num_envs: int
    _: KW_ONLY
    gamma: float = 0.99
    scale: float = 1.0
    """Rewards are multiplied by this and by the normalization's factor."""
    clip: float = 0.0
    """After scaling, rewards are clipped to +-this; 0: not clipped."""
    normalization: Normalization = UNCHANGED
    extras: NDArray[np.float32] = field(default_factory=lambda: NO_EXTRAS)
    """The extras of the model; they may change in place."""

    def __post_init__(self) -> None:
        self._sums = np.zeros(self.num_envs)

    def restart(self) -> None:
        """Begin new episodes in every environment."""
        self._sums.fill(0.0)

    def apply(
        self, observations: NDArray[Any], rewards: NDArray[np.float32], valid: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], Moments | None]:
        """Return the rewards to learn from (T, B), and the moments of the valid steps; None if there are none.

        observations: (T, B, *shape), before each step. rewards: (T, B), as the environment gave them. valid: (T, B).
        Raises NonFiniteError for a reward or an observation that is not finite; the next rollout is not affected.
        """
        scale = np.float32(self.scale * self.normalization.reward_scale(self.extras))
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            scaled = rewards * scale
        finite = np.isfinite(scaled)
        if not finite.all():
            if self.normalization.rewards:  # the episodes go on, or end, without these rewards
                self._discounted(np.where(finite, rewards, np.float32(0)), valid)
            raise NonFiniteError("the environment gave a reward that is no finite number: rollout dropped")
        counted = self._count(observations, rewards, valid)
        if counted is not None and not counted.usable:
            what = "an observation that is not finite or too large for statistics"
            raise NonFiniteError(f"the environment gave {what}: rollout dropped")
        if self.clip:
            np.clip(scaled, -self.clip, self.clip, out=scaled)
        return scaled, counted

    def _count(
        self, observations: NDArray[Any], rewards: NDArray[np.float32], valid: NDArray[np.bool_]
    ) -> Moments | None:
        columns = []
        if numbers := self.normalization.observations:
            rows = observations.reshape(*valid.shape, -1)[valid]
            columns.append(rows[:, :numbers].astype(np.float64))  # an action mask may follow
        if self.normalization.rewards:
            columns.append(self._discounted(rewards, valid)[valid][:, np.newaxis])
        return Moments.from_rows(np.concatenate(columns, axis=1)) if columns and valid.any() else None

    def _discounted(self, rewards: NDArray[np.float32], valid: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return (T, B): after each step, the sum of its episode's rewards so far, discounted by their age."""
        sums = np.empty(rewards.shape)
        for t, row in enumerate(rewards):
            # An episode begins after a dummy step.
            self._sums = np.where(valid[t], self.gamma * self._sums + row, 0.0)
            sums[t] = self._sums
        return sums


def reward_transform(
    settings: Settings, num_envs: int, normalization: Normalization, extras: NDArray[np.float32]
) -> RewardTransform:
    """Return the reward transform of a run; `normalization` and `extras` are those of its model."""
    environment = settings.environment
    return RewardTransform(
        num_envs,
        gamma=settings.algorithm.gamma,
        scale=environment.reward_scale,
        clip=environment.reward_clip,
        normalization=normalization,
        extras=extras,
    )
