"""A store that takes gradients and can go over to trajectories, with the same model, optimizer and statistics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from common.rl.gradient import gradient
from common.rl.networks.heads import PolicyValue
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Settings
from common.wire.frames import Buffer
from learner.choice import Costs
from learner.parameters.batch_trainer import Trainer
from learner.parameters.weights import ParameterStore

MOST_TRIES, MOST_SECONDS = 4, 0.1
"""So often, at least twice, the gradient of a rollout is computed to see what it takes; no more begin after so long."""


class UndecidedStore(Trainer):
    """Begins as `ParameterStore`, and is `Trainer` after `change_over`."""

    def __init__(self, *arguments: Any, body: bytes, **options: Any) -> None:
        """`body`: a packed rollout, codec `none`, to try with; the rest as for `Trainer`, with `unpack`."""
        super().__init__(*arguments, **options)
        self._body = body
        self._over = False
        self._least = {"add": 0.0, "step": 0.0}

    def add(self, body: Buffer, codec: str, weight: float, count: int = 1, lag: int = 0) -> None:
        """Adds a packed gradient, or packed rollouts; raises CodecError, with nothing added."""
        if self._over:
            super().add(body, codec, weight, count, lag)
        else:
            self._timed("add", lambda: ParameterStore.add(self, body, codec, weight, count, lag))

    def step(self, *, scale: float, frames: int) -> Mapping[str, float]:
        """As of whichever of the two it is."""
        if self._over:
            return super().step(scale=scale, frames=frames)
        learnt: Mapping[str, float] = self._timed("step", lambda: ParameterStore.step(self, scale=scale, frames=frames))
        return learnt

    def costs(self) -> Costs:
        """The least that adding, stepping and, tried here and now, learning from a rollout has taken.

        Weights, statistics and what has been added are as before.
        """
        begun, took = time.perf_counter(), list[float]()
        while len(took) < 2 or (len(took) < MOST_TRIES and time.perf_counter() - begun < MOST_SECONDS):
            started = time.perf_counter()
            gradient(self.model, self._unpack(self._body, "none", 1), self._section)
            took.append(time.perf_counter() - started)
        return Costs(add=self._least["add"], learn=min(took), step=self._least["step"])

    def change_over(self) -> None:
        """From now on what is added are rollouts; nothing may wait."""
        if self._added:
            raise RuntimeError("gradients wait for their step")
        self._over = True

    def _timed(self, name: str, call: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = call()
        took, before = time.perf_counter() - started, self._least[name]
        self._least[name] = min(took, before) if before else took
        return result


def blank(settings: Settings, observation: ObservationSpec, network: PolicyValue) -> Rollout:
    """A rollout of the run's sizes in which nothing happens."""
    shape = settings.algorithm.rollout_length, settings.environment.num_envs
    action, state = network.action, network.state_size
    return Rollout(
        observations=torch.zeros((shape[0] + 1, shape[1], *observation.shape), dtype=observation.dtype),
        actions=torch.from_numpy(np.zeros((*shape, *action.shape), action.dtype)),
        rewards=torch.zeros(shape),
        terminated=torch.zeros(shape, dtype=torch.bool),
        valid=torch.ones(shape, dtype=torch.bool),
        behaviour_log_probs=torch.zeros(shape),
        state=torch.zeros(shape[1], state) if state else None,
    )
