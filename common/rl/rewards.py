"""What is made of a rollout's rewards before it is learnt from, and what running statistics count of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.errors import A3cdError
from common.rl import moments
from common.rl.model import Model
from common.rl.moments import Moments
from common.rl.networks.normalization import Normalization
from common.settings.sections import Settings

UNCHANGED, NO_EXTRAS = Normalization(0, rewards=False), torch.zeros(0)


class NonFiniteError(A3cdError):
    """The environment gave a reward, or the loss a gradient, that is no finite number."""


class RewardTransform:
    """For the rollouts of one batch of environments, in order: an episode's rewards add up from one to the next."""

    def __init__(
        self,
        copies: int,
        *,
        discount: float = 0.99,
        scale: float = 1.0,
        clip: float = 0.0,
        normalization: Normalization = UNCHANGED,
        extras: Tensor = NO_EXTRAS,
    ) -> None:
        """`discount` per step. Rewards are multiplied by `scale`, and by what `normalization` finds in the model's
        `extras`; then clipped to +-`clip` (0: not)."""
        self._normalization, self._extras, self._discount = normalization, extras, discount
        self._scale, self._clip = scale, clip
        self._sums = np.zeros(copies)

    def restart(self) -> None:
        """New episodes begin in every copy."""
        self._sums.fill(0.0)

    def shape(
        self, observations: NDArray[Any], rewards: NDArray[np.float32], valid: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], Moments | None]:
        """Rewards to learn from, and moments of the valid steps; None where nothing is counted, or there is no such.

        observations: (T, B, *shape), that were acted on. rewards: (T, B), as the environment gave them. valid: (T, B).
        Raises NonFiniteError where one of them would spoil what is learnt; the next rollout is not touched by that.
        """
        scale = np.float32(self._scale * self._normalization.reward_scale(self._extras))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is seen below
            shaped = rewards * scale
        if not np.isfinite(shaped).all():
            raise NonFiniteError("the environment gave a reward that is no finite number: rollout dropped")
        counted = self._count(observations, rewards, valid)
        if counted is not None and not counted.usable:
            raise NonFiniteError("the environment gave what no statistics can be kept of: rollout dropped")
        if self._clip:
            np.clip(shaped, -self._clip, self._clip, out=shaped)
        return shaped, counted

    def _count(
        self, observations: NDArray[Any], rewards: NDArray[np.float32], valid: NDArray[np.bool_]
    ) -> Moments | None:
        if not self._normalization.counted:
            return None
        sums = self._discounted(rewards, valid) if self._normalization.rewards else None
        if not valid.any():
            return None
        parts = []
        if self._normalization.observations:
            parts.append(moments.of(observations[valid].reshape(np.count_nonzero(valid), -1)))
        if sums is not None:
            parts.append(moments.of(sums[valid][:, np.newaxis]))
        means, squares = (np.concatenate(one) for one in zip(*((p.means, p.squares) for p in parts), strict=True))
        return Moments(parts[0].count, means, squares)

    def _discounted(self, rewards: NDArray[np.float32], valid: NDArray[np.bool_]) -> NDArray[np.float64]:
        """(T, B): after each step, the sum of its episode's rewards so far, each discounted by its age."""
        sums = np.empty(rewards.shape)
        for t, row in enumerate(rewards):
            # A step that is not valid begins an episode.
            self._sums = np.where(valid[t], self._discount * self._sums + row, 0.0)
            sums[t] = self._sums
        return sums


def reward_transform(settings: Settings, model: Model, copies: int) -> RewardTransform:
    """As a run's settings have it, for so many of its environments."""
    environment = settings.environment
    return RewardTransform(
        copies,
        discount=settings.algorithm.gamma,
        scale=environment.reward_scale,
        clip=environment.reward_clip,
        normalization=model.normalization,
        extras=model.extras,
    )
