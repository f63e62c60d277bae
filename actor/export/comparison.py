"""Compares an exported policy with the agent, on observations of the agent's own play."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actor.agent.trained_agent import TrainedAgent, TrainedRun
from actor.export.formats import Computed
from common.errors import ConfigurationError
from common.host.modules import error_text
from common.rl.action_masks import FORBIDDEN
from common.rl.algorithms.registry import exploration
from common.rl.rollout_buffer import masked_state
from common.rl.seeds import held_out_seeds

OBSERVATIONS = 1000
NUM_ENVS = 16
TOLERANCE = 1e-4
"""Tolerance for the policy's numbers and the values, relative to the largest; reordered sums differ by less."""


@dataclass(frozen=True)
class Compared:
    observations: int
    ties: int
    """Number of these for which the exported policy took another action, as good as the agent's to the last digits."""
    difference: float
    """The largest difference between the policy's numbers and values and the agent's."""


def compare(run: TrainedRun, compute: Computed) -> Compared:
    """Play with the agent, and compute each step with the exported policy too; a recurrent one gets its own states.

    Raises ConfigurationError if the two differ or the exported one fails, UnavailableError if the environment fails.
    """
    seed = next(held_out_seeds("report", 0))
    with closing(TrainedAgent(run, num_envs=NUM_ENVS, seed=seed, sampled=False)) as agent:
        environments, model = agent.environments, agent.model
        best = exploration(run.settings.algorithm, model.action, NUM_ENVS, np.random.default_rng(0), None).best
        observations = environments.reset()
        states = [np.zeros((NUM_ENVS, model.state_size), np.float32)] * 2
        fresh = np.zeros(NUM_ENVS, np.bool_)
        count = ties = 0
        difference = 0.0
        while count < OBSERVATIONS:
            outputs, states[0] = model.step(observations, states[0])
            try:
                found = compute(observations.copy(), *states[1:] if model.state_size else ())
            except Exception as error:
                raise ConfigurationError(f"the exported policy fails: {error_text(error)[:300]}") from error
            own, policy, value = found[:3]
            numbers = np.concatenate([policy, value[:, None]], axis=1)
            apart = float(np.abs(numbers - outputs).max())
            actions = best(outputs[:, :-1])
            expected = environments.actions.own(actions)
            decoded = environments.actions.own(best(policy))
            largest = float(np.abs(outputs, where=outputs != np.float32(FORBIDDEN), out=np.zeros_like(outputs)).max())
            if not apart <= TOLERANCE * max(1.0, largest) or not _alike(own, decoded):
                raise ConfigurationError(
                    f"the exported policy differs from the agent: its numbers by {apart:.2g}, after {count} "
                    "observations; nothing was written"
                )
            count += NUM_ENVS
            ties += sum(not _alike(one, other) for one, other in zip(own, expected, strict=True))
            difference = max(difference, apart)
            observations, _, terminated, truncated, _ = environments.step(actions)
            states = [masked_state(one, ~fresh) for one in (states[0], *found[3:])]
            fresh = terminated | truncated
    return Compared(count, ties, difference)


def _alike(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Compare actions: numbers of a Box within TOLERANCE, choices exactly."""
    if one.dtype.kind == "f":
        return np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE)
    return np.array_equal(one, other)
