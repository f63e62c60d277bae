"""Measures how long a step of a batch of environments takes on this host."""

import time

import numpy as np

from common.rl.action_masks import first_allowed, split
from common.rl.environments.make import make
from common.settings.sections import Environment

STEPS = 50
SECONDS = 0.5
"""No more steps are taken after this time."""


def step_seconds(section: Environment, seed: int) -> float:
    """Return the seconds of the shortest step of the section's batch, with any actions; raises as `make` and `step`."""
    batch = make(section, num_envs=section.num_envs, seed=seed)
    try:
        observations, seen = batch.reset(), batch.observation.seen
        actions = np.zeros((batch.count, *batch.action.shape), batch.action.dtype)
        shortest, until = np.inf, time.perf_counter() + SECONDS
        for _ in range(STEPS):
            if seen is not None:
                actions = first_allowed(batch.action, split(seen, observations)[1])
            begun = time.perf_counter()
            observations = batch.step(actions).observations
            now = time.perf_counter()
            shortest = min(shortest, now - begun)
            if now > until:
                break
        return max(batch.pace, float(shortest))
    finally:
        batch.close()
