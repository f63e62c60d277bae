"""Evaluate a trained agent: returns and lengths of its episodes."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing

import msgspec
import numpy as np
from numpy.typing import NDArray

from actor.agent import EPISODE_STEPS
from actor.agent.agent import Agent
from actor.agent.trained_agent import TrainedAgent, Which, open_run
from common.errors import UnavailableError
from common.rl.episode_statistics import ReturnStatistics, return_statistics
from common.rl.seeds import held_out_seeds

NUM_ENVS = 16
"""Environments stepped at once."""
PlayedEpisode = tuple[float, int, bool]
"""An episode's return, its length in steps, and whether it was cut off."""


class Evaluation(ReturnStatistics, frozen=True, kw_only=True):
    """Statistics of the episodes; returns are undiscounted sums of the environment's own rewards."""

    env: str
    version: int
    """Number of optimizer steps that made the weights."""
    sampled: bool
    """Whether actions were drawn; else the best ones were taken."""
    seed: int
    """Seed of the episodes; no training plays any of them, whatever its own seed."""
    length_mean: float
    """Mean length of an episode, in steps of the agent."""
    capped: int
    """Number of episodes cut off at `max_steps`; they count with their return until then."""
    max_steps: int
    returns: list[float]
    lengths: list[int]


def evaluate(
    run: str | os.PathLike[str],
    *,
    episodes: int = 100,
    sampled: bool | None = None,
    seed: int = 0,
    max_steps: int = EPISODE_STEPS,
    checkpoint: Which = "best",
    looked: Callable[[int], object] = lambda _: None,
) -> Evaluation:
    """Play `episodes` episodes with a run's agent. The same arguments give the same result.

    run, checkpoint: as in `load`.
    sampled: draw actions as in training; None: as the run's settings say (evaluation.sampled).
    looked: called after each step of all environments, with the number of episodes played so far.
    Raises ConfigurationError (no run, no checkpoint, no such environment) and UnavailableError (the environment fails).
    """
    trained = open_run(run, checkpoint)
    seeds = held_out_seeds("report", seed)
    with closing(TrainedAgent(trained, num_envs=min(NUM_ENVS, episodes), seed=next(seeds), sampled=sampled)) as agent:
        played = play_episodes(agent, episodes=episodes, max_steps=max_steps, seeds=seeds, looked=looked)
    returns, lengths, capped = (list(column) for column in zip(*played, strict=True))
    return Evaluation(
        **msgspec.structs.asdict(return_statistics(returns)),
        env=trained.settings.environment.id,
        version=trained.checkpoint.version,
        sampled=agent.sampled,
        seed=seed,
        length_mean=float(np.mean(lengths)),
        capped=sum(capped),
        max_steps=max_steps,
        returns=returns,
        lengths=lengths,
    )


def play_episodes(
    agent: Agent,
    *,
    episodes: int,
    max_steps: int,
    seeds: Iterator[int],
    looked: Callable[[int], object] = lambda _: None,
) -> list[PlayedEpisode]:
    """Play `episodes` episodes (1 or more) of at most `max_steps` steps each; `seeds` gives one seed for each reset.

    Counting the first episodes that end would favour short ones. Each environment therefore gets its number of
    episodes in advance, and every episode that begins counts. An environment with a capped episode waits for the
    others, because only the whole batch can be reset; the remaining episodes are then shared out anew.
    looked: as of `evaluate`.
    """
    played: list[PlayedEpisode] = []
    for _ in playing(agent, played, episodes=episodes, max_steps=max_steps, seeds=seeds):
        looked(len(played))
    return played


def playing(
    agent: Agent, played: list[PlayedEpisode], *, episodes: int, max_steps: int, seeds: Iterator[int]
) -> Iterator[None]:
    """Play as `play_episodes` does, one step of the batch per iteration; appends to `played`."""
    count = agent.environments.count
    while len(played) < episodes:
        each, more = divmod(episodes - len(played), count)
        shares = each + (np.arange(count) < more)
        yield from _round(agent, played, shares, max_steps, next(seeds))


def _round(
    agent: Agent, played: list[PlayedEpisode], shares: NDArray[np.int64], max_steps: int, seed: int
) -> Iterator[None]:
    """Play from a reset until every environment has played its share, or an episode of it has reached the cap."""
    observations = agent.environments.reset(seed)
    agent.begin()
    left = shares.copy()
    returns = np.zeros(len(left))
    lengths = np.zeros(len(left), np.int64)
    fresh = np.zeros(len(left), np.bool_)
    while left.any():
        observations, rewards, terminated, truncated, _ = agent.environments.step(agent.act(observations))
        agent.keep(~fresh)
        # The step after the end of an episode is a dummy, which only resets that environment.
        returns += np.where(fresh, 0.0, rewards)
        lengths += ~fresh
        ended = terminated | truncated
        capped = ~ended & (lengths >= max_steps)
        counted = np.flatnonzero((ended | capped) & (left > 0))
        if not np.isfinite(returns[counted]).all():
            name = agent.settings.environment.id
            raise UnavailableError(f"environment {name} gave a reward that is no finite number: no return to show")
        played += zip(returns[counted].tolist(), lengths[counted].tolist(), capped[counted].tolist(), strict=True)
        left = np.where(capped, 0, left - (ended & (left > 0)))
        returns[ended], lengths[ended] = 0.0, 0
        fresh = ended
        yield
