"""No algorithm takes a forbidden action by any exchange, and each learns among those that are allowed."""

from __future__ import annotations

import pytest

from common.run.status import RunStatus
from common.settings.exchanges import EXCHANGES
from common.settings.sections import Settings
from common.settings.toml import override
from simulation.cluster import Cluster
from simulation.recorders import MemoryRecorder
from simulation.settings import Simulation
from tests.helpers.guarded import FORBIDDEN, ID, STEPS

pytestmark = pytest.mark.slow

TASK = (
    f"environment.id={ID}",
    "environment.action_masks=true",
    "environment.num_envs=8",
    "network.hidden=[16]",
    "algorithm.rollout_length=5",
    "algorithm.gamma=0.5",
    "algorithm.epsilon_finals=[0.02]",
    "algorithm.epsilon_probabilities=[1.0]",
    "algorithm.epsilon_frames=4000",
    "algorithm.target_frames=400",
    "optimizer.learning_rate=0.01",
    "scaling.minimum=2",
    "scaling.maximum=2",
    "limits.frames=20000",
)
WAYS = [(algorithm, exchange) for algorithm, exchanges in EXCHANGES.items() for exchange in exchanges]


def learnt(*assignments: str) -> RunStatus:
    """As soon as the task is learnt, or at the end of the run."""
    FORBIDDEN.clear()
    cluster = Cluster(override(Settings(), (*TASK, *assignments)), Simulation(), MemoryRecorder())
    status = cluster.status()
    while not cluster.over and not opens_the_doors(status):
        cluster.run(cluster.queue.now + 0.05)
        status = cluster.status()
    return status


def opens_the_doors(status: RunStatus) -> bool:
    """Nearly always, over the last hundred episodes; chance would do so in half of the steps."""
    return status.mean_return is not None and status.episodes >= 100 and status.mean_return > 0.9 * STEPS


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("algorithm", "exchange"), WAYS)
def test_it_learns_and_takes_what_is_allowed(algorithm: str, exchange: str) -> None:
    status = learnt(f"algorithm.kind={algorithm}", f"exchange.kind={exchange}")
    assert opens_the_doors(status), status.mean_return
    assert FORBIDDEN == []


@pytest.mark.parametrize("masks", [True, False])
@pytest.mark.parametrize("exchange", ["gradients", "actions"])
def test_masks_that_nobody_asked_for_are_named_once(
    masks: bool, exchange: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process; here two actors are in one."""
    monkeypatch.setattr("common.rl.environments.masks._told", False)
    caplog.set_level("INFO")
    given = ("environment.id=Taxi-v4", f"environment.action_masks={str(masks).lower()}", f"exchange.kind={exchange}")
    cluster = Cluster(override(Settings(), (*TASK, *given, "limits.frames=500")), Simulation(), MemoryRecorder())
    while not cluster.over:
        cluster.run(cluster.queue.now + 0.05)
    assert caplog.text.count("environment.action_masks = true makes use of it") == 1 - masks


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "assignments",
    [
        ("environment.options={pairs=true}",),
        ("environment.options={numbers=true}", "network.normalize=true", "network.shared=false"),
        ("environment.options={numbers=true}", "network.kind=tests.helpers.own_networks:Small"),
        ("network.lstm=8", "algorithm.kind=ppo", "algorithm.minibatches=2"),
        ("algorithm.kind=vtrace", "network.lstm=8", "exchange.kind=actions", "environment.options={pairs=true}"),
    ],
    ids=["pairs", "normalised", "own", "lstm", "lstm-actions"],
)
def test_in_other_ways_too(assignments: tuple[str, ...]) -> None:
    status = learnt(*assignments)
    assert opens_the_doors(status), status.mean_return
    assert FORBIDDEN == []
