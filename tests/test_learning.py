"""Every algorithm by every exchange learns, on a simulated fleet: what a seed gives does not depend on the load."""

from __future__ import annotations

import pytest

from common.run.status import RunStatus
from common.settings.exchanges import EXCHANGES
from common.settings.sections import Settings
from common.settings.toml import override
from simulation.cluster import Cluster
from simulation.recorders import MemoryRecorder
from simulation.settings import Simulation
from tests.helpers.owed import ID, LIMIT

TASK = (
    f"environment.id={ID}",
    "environment.num_envs=8",
    "network.hidden=[16]",
    "algorithm.rollout_length=3",
    "algorithm.gamma=0.9",
    "optimizer.learning_rate=0.01",
    "scaling.minimum=3",
    "scaling.maximum=3",
    "limits.frames=30000",
)
VALUES = (
    "algorithm.epsilon_finals=[0.02]",
    "algorithm.epsilon_probabilities=[1.0]",
    "algorithm.epsilon_frames=8000",
    "algorithm.target_frames=400",
)
WAYS = [(algorithm, exchange) for algorithm, exchanges in EXCHANGES.items() for exchange in exchanges]


def learnt(*assignments: str, seed: int = 0) -> RunStatus:
    """As soon as the task is learnt, or at the end of the run."""
    settings = override(Settings(), (*TASK, *assignments, f"seed={seed}"))
    cluster = Cluster(settings, Simulation(), MemoryRecorder())
    status = cluster.status()
    while not cluster.over and not stays_and_names_the_signs(status):
        cluster.run(cluster.queue.now + 0.05)
        status = cluster.status()
    return status


def stays_and_names_the_signs(status: RunStatus) -> bool:
    """Nearly always, over the last hundred episodes: nobody leaves, and all but the last name is paid for."""
    if status.mean_return is None or status.episode_length is None or status.episodes < 100:
        return False
    return status.episode_length > 0.95 * LIMIT and status.mean_return > 0.95 * (LIMIT - 1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("algorithm", "exchange"), WAYS)
def test_it_learns(algorithm: str, exchange: str) -> None:
    status = learnt(*VALUES, f"algorithm.kind={algorithm}", f"exchange.kind={exchange}")
    assert stays_and_names_the_signs(status), (status.mean_return, status.episode_length)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "assignments",
    [
        ("staleness.policy=synchronous",),
        ("staleness.policy=compensate", "algorithm.refresh=false", "exchange.accumulate=1"),
        ("optimizer.kind=rmsprop", "optimizer.anneal=linear"),
        ("network.normalize=true", "environment.reward_normalize=true", "environment.reward_scale=0.3"),
        ("network.lstm=8", "algorithm.kind=ppo", "algorithm.minibatches=2"),
        ("exchange.codec=sign", "exchange.weights=delta"),
    ],
    ids=lambda assignments: assignments[0].partition(".")[2],
)
def test_it_learns_in_other_ways(assignments: tuple[str, ...]) -> None:
    status = learnt(*assignments)
    assert stays_and_names_the_signs(status), (status.mean_return, status.episode_length)
