"""Evaluating a trained agent: returns over a number of episodes."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from actor.agent.trained_agent import TrainedAgent, Which, open_run
from common.rl.environments.base import Actions, Environments, Observations

COPIES = 16
"""Environments played at once."""
MAX_STEPS = 27_000
"""The longest episode, unless asked otherwise: half an hour of an Atari game, as is usual there."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent did; returns as the environment gives them, undiscounted."""

    env: str
    version: int
    """Of the weights: optimizer steps they had seen."""
    sampled: bool
    seed: int
    episodes: int
    mean: float
    std: float
    """Of the episodes' returns, not of their mean."""
    minimum: float
    maximum: float
    length_mean: float
    """Steps of the agent."""
    capped: int
    """Episodes cut off at `max_steps`; they count with what they had until then."""
    max_steps: int
    returns: list[float]
    lengths: list[int]


class Actor(Protocol):
    """What chooses the actions, and may remember the episode so far."""

    def begin(self) -> None:
        """The next observations begin an episode in every copy."""

    def keep(self, valid: NDArray[np.bool_]) -> None:
        """After a step: where `valid` (B,) is False it was a dummy, and the next observation begins an episode."""

    def act(self, observations: Observations) -> Actions:
        """Choose an action (B, *action.shape) for each of the observations (B, *shape)."""


def evaluate(
    run: Path,
    *,
    episodes: int = 100,
    sampled: bool = False,
    seed: int = 0,
    max_steps: int = MAX_STEPS,
    checkpoint: Which = "best",
) -> Evaluation:
    """Play `episodes` episodes with a run's agent; the same arguments give the same result.

    Raises ConfigurationError (no run, no checkpoint, no such environment) and UnavailableError (the environment fails).
    """
    trained = open_run(run, checkpoint)
    agent = TrainedAgent(trained, copies=min(COPIES, episodes), seed=seed, sampled=sampled)
    try:
        played = play_episodes(agent.environments, agent, episodes=episodes, max_steps=max_steps, seed=seed)
    finally:
        agent.close()
    returns = [episode_return for episode_return, _, _ in played]
    lengths = [length for _, length, _ in played]
    return Evaluation(
        env=trained.settings.environment.id,
        version=trained.checkpoint.version,
        sampled=sampled,
        seed=seed,
        episodes=len(played),
        mean=statistics.fmean(returns),
        std=statistics.pstdev(returns),
        minimum=min(returns),
        maximum=max(returns),
        length_mean=statistics.fmean(lengths),
        capped=sum(capped for _, _, capped in played),
        max_steps=max_steps,
        returns=returns,
        lengths=lengths,
    )


def play_episodes(
    environments: Environments, actor: Actor, *, episodes: int, max_steps: int, seed: int
) -> list[tuple[float, int, bool]]:
    """Return, length and whether it was capped, of each of `episodes` (1 or more) episodes.

    Taking the first episodes that end would favour short ones. So every copy is given its number of episodes before
    they begin, and each episode begun counts. A copy whose episode is capped waits for the others: the batch can only
    be reset as a whole, and what is then still to be played is shared out anew.
    """
    played: list[tuple[float, int, bool]] = []
    round_ = 0
    while len(played) < episodes:
        shares = _shares(episodes - len(played), environments.count)
        played += _play_round(environments, actor, shares, max_steps, seed + round_)
        round_ += 1
    return played


def _play_round(
    environments: Environments, actor: Actor, shares: NDArray[np.int64], max_steps: int, seed: int
) -> list[tuple[float, int, bool]]:
    """From a reset until every copy has played its share or reached the cap."""
    observations = environments.reset(seed)
    actor.begin()
    left = shares.copy()
    returns, lengths = np.zeros(len(left)), np.zeros(len(left), np.int64)
    fresh = np.zeros(len(left), np.bool_)
    played: list[tuple[float, int, bool]] = []
    while left.any():
        observations, rewards, terminated, truncated, _ = environments.step(actor.act(observations))
        actor.keep(~fresh)
        # After the end of an episode the next step is a dummy, which only resets that copy.
        returns += np.where(fresh, 0.0, rewards)
        lengths += ~fresh
        ended = terminated | truncated
        capped = ~ended & (lengths >= max_steps)
        counted = np.flatnonzero((ended | capped) & (left > 0))
        played += zip(returns[counted].tolist(), lengths[counted].tolist(), capped[counted].tolist(), strict=True)
        left = np.where(capped, 0, left - (ended & (left > 0)))
        returns[ended], lengths[ended] = 0.0, 0
        fresh = ended
    return played


def _shares(episodes: int, copies: int) -> Actions:
    return np.full(copies, episodes // copies) + (np.arange(copies) < episodes % copies)
