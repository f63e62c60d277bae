"""A launcher whose actors are those of Ray, on three raylets: they come, grow in number, are lost with one, and end."""

from __future__ import annotations

import importlib.util
import signal

import pytest

from common.errors import EXIT_SIGTERM
from common.run.status import RunStatus
from tests.helpers.daemons import Daemons, free_address, status_when
from tests.helpers.ray_cluster import ray_cluster
from tests.helpers.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
]
SETTINGS = """
environment.id = "CartPole-v1"
environment.step_seconds = 0.005
limits.frames = 1_000_000_000
exchange.heartbeat_seconds = 0.5
exchange.expiry_seconds = 8.0
[scaling]
policy = "episode-duration"
minimum = 2
maximum = 6
busy_limit = 1.0
unit = "seconds"
thresholds_seconds = [0.001]
additions = [4]
episodes_between = 20
interval_seconds = 0.2
"""


def playing(status: RunStatus) -> set[int]:
    """Process ids of the actors that sent gradients."""
    return {peer.pid for peer in status.actors if peer.gradients}


def test_actors_grow_in_number_and_are_lost_with_a_raylet_and_come_again(daemons: Daemons) -> None:
    address = free_address()
    with ray_cluster() as cluster:
        for _ in range(2):
            cluster.tell("add")
        daemons.start("learner", "--config", daemons.config(SETTINGS), "--bind", address, "--run-dir", "run")
        launcher = daemons.start(
            *("launcher", address, "--name", "lab", "--slots", 6, "--start-with", "ray", "--ray", cluster.address),
            *("--request", "memory=64Mi"),
        )
        grown = playing(status_when(address, lambda status: len(playing(status)) == 6, "six actors"))
        assert set(cluster.actors()) == grown
        cluster.tell("kill", 2)
        launcher.wait_for(" lost on ")
        until(lambda: len(cluster.actors()) == 4, "two fewer: SPREAD had put two on each")
        left = set(cluster.actors())
        assert left < grown
        cluster.tell("add")
        status_when(address, lambda status: len(playing(status) - (grown - left)) == 6, "two others in their place")
        launcher.signal(signal.SIGTERM)
        assert launcher.wait() == EXIT_SIGTERM
        assert not launcher.family()
        until(lambda: not cluster.actors(), "all actors ended")
