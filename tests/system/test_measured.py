"""exchange.kind = "auto" over real sockets: a run that goes over to trajectories while it learns, and its resume."""

from __future__ import annotations

import pytest

from common.run.folder import RunFolder
from tests.helpers.daemons import Daemons

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def test_a_large_network_on_small_rollouts_goes_over_to_trajectories(daemons: Daemons) -> None:
    """A gradient is 17 MB that take long to pack, a trajectory a hundred bytes."""
    run_dir = daemons.folder / "run"
    words = ("train", "CartPole-v1", "--json", "--run-dir", run_dir, "--seconds", 120)
    chosen = ("network.hidden=[2048,2048]", "exchange.codec=none", "exchange.entropy_coder=zstd")
    small = ("algorithm.rollout_length=2", "environment.num_envs=1", "scaling.busy_limit=1.0")
    settings = tuple(word for one in (*chosen, *small) for word in ("--set", one))
    first = daemons.start(*words, *settings, "--frames", 200)
    assert first.wait(200) == 0
    assert "exchange of trajectories: " in first.said
    assert first.result["refused"] == 0
    assert first.result["gradients"] > 0
    assert first.result["frames"] >= 200
    assert first.errors == []
    assert RunFolder(run_dir).settings().exchange.kind == "trajectories"

    again = daemons.start(*words, *settings, "--resume", "--frames", 250)
    assert again.wait(200) == 0
    assert "exchange of" not in again.said, "it was measured before"
    assert again.result["frames"] >= 250
    assert again.errors == []
    assert again.family() == []
