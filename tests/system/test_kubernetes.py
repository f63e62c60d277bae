"""A launcher whose actors are pods: they come, are found again, are replaced, and end with the run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from common.errors import EXIT_SIGTERM
from common.run.status import RunStatus
from tests.helpers.daemons import Daemon, Daemons, free_address, status_when
from tests.helpers.kubernetes import cluster
from tests.helpers.waiting import until

pytest.importorskip("kubernetes")
pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(180)]

SETTINGS = """
environment.id = "CartPole-v1"
environment.step_seconds = 0.002
limits.frames = 1_000_000_000
scaling.policy = "fixed"
scaling.minimum = 3
"""


def playing(status: RunStatus) -> set[int]:
    """Process ids of the actors that sent gradients."""
    return {peer.pid for peer in status.actors if peer.gradients}


def test_pods_come_and_are_found_again_and_end_with_the_run(
    daemons: Daemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = free_address()
    with cluster(nodes=True) as (api, kubelet):
        assert kubelet is not None
        monkeypatch.setenv("KUBECONFIG", str(api.config(tmp_path)))
        config = daemons.config(SETTINGS)
        learner = daemons.start("learner", "--config", config, "--bind", address, "--run-dir", "run")

        def launcher() -> Daemon:
            return daemons.start(
                *("launcher", address, "--insecure", "--name", "lab", "--slots", 4, "--start-with", "kubernetes"),
                *("--image", "a3cd", "--actor-learner", address),
            )

        one = launcher()
        status_when(address, lambda status: len(playing(status)) == 3, "three pods at work")
        pods = kubelet.working
        one.signal(signal.SIGTERM)
        assert one.wait() == EXIT_SIGTERM
        assert kubelet.working == pods, "they go on"
        other = launcher()
        other.wait_for("found an actor at work slot=0", "found an actor at work slot=2")
        os.kill(pods[0], signal.SIGKILL)
        status_when(address, lambda status: playing(status) - {pods[0]} > set(pods[1:]), "another in its place")
        learner.signal(signal.SIGTERM)
        assert learner.wait() == EXIT_SIGTERM
        other.signal(signal.SIGINT)
        other.wait()
        until(lambda: not kubelet.working, "all pods ended")
