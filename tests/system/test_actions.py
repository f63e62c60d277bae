"""`a3cd train` with actors that hold environments only."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from common.errors import EXIT_SIGINT
from common.rl.environments.make import make
from common.rl.networks.model import build
from common.run.folder import RunFolder
from tests.helpers.daemons import Daemon, Daemons, free_address, status_when
from tests.helpers.programs import alive
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SETTINGS = """
[environment]
id = "CartPole-v1"
step_seconds = 0.002 # a core is left for the tests
[exchange]
kind = "actions"
[checkpoint]
every_seconds = 0.5
"""
ACTIONS = ("--set", "exchange.kind=actions", "--set", "environment.step_seconds=0.002")


def plays_on(training: Daemon, beyond: int = 0) -> None:
    """Two actors are there, and more frames are played than there were, and than `beyond`."""
    until(lambda: len(training.members("actor")) == 2, "two actors of", of=training)
    training.wait_for_frames(max(beyond, training.frames))


def test_a_run_learns_by_itself(daemons: Daemons) -> None:
    run_dir = daemons.folder / "run"
    training = daemons.run("train", "CartPole-v1", *ACTIONS, "--frames", 5000, "--run-dir", run_dir, "--json")
    result = training.result
    assert (result["state"], result["refused"], result["stale"]) == ("finished", 0, 0)
    assert result["frames"] >= 5000
    assert result["episodes"] > 50
    assert result["gradients"] > 5
    # Up: a step is 16 bytes of observation and 4 of reward, and some bits; down: an action is a byte.
    assert 20 < result["gradient_bytes"] / result["frames"] < 30
    assert 0.9 < result["action_bytes"] / result["frames"] < 1.5
    newest = RunFolder(run_dir).newest()
    assert newest is not None
    checkpoint, settings = newest.read(), RunFolder(run_dir).settings()
    environments = make(settings.environment, num_envs=1, seed=0)
    environments.close()
    untrained = build(settings, environments.observation, environments.action).flat.vector.numpy()
    assert np.abs(checkpoint.weights - untrained).max() > 1e-3
    assert training.errors == []


@pytest.mark.long
def test_it_goes_on_without_an_actor_and_after_the_learner(daemons: Daemons) -> None:
    run_dir = daemons.folder / "run"
    endless = ("--set", "limits.frames=0", "--set", "limits.until_return=1e9")
    training = daemons.start("train", "CartPole-v1", *ACTIONS, *endless, "--run-dir", run_dir)
    plays_on(training)
    (first, *_) = training.members("actor")
    first.send_signal(signal.SIGKILL)
    until(lambda: not alive(first.pid), "the actor's end")
    plays_on(training)
    training.signal(signal.SIGINT)
    assert training.wait() == EXIT_SIGINT
    newest = RunFolder(run_dir).newest()
    assert newest is not None
    counters = newest.read().state["counters"]
    training = daemons.start("train", "CartPole-v1", "--resume", "--run-dir", run_dir)
    training.wait_for(f"resumed at version {counters['version']}, {counters['frames']} frames")
    plays_on(training, counters["frames"])


def test_an_actor_waits_for_a_learner_that_dies_and_plays_on_with_the_next(daemons: Daemons) -> None:
    address, run_dir = free_address(), daemons.folder / "run"
    actor = daemons.start("actor", address, "--name", "by-hand")
    learner = daemons.start(
        *("learner", "--config", daemons.config(SETTINGS), "--bind", address, "--run-dir", run_dir),
    )
    kept = status_when(address, lambda status: status.version > 20, "some steps")
    until(lambda: RunFolder(run_dir).newest(), "a checkpoint")
    learner.signal(signal.SIGKILL)
    assert learner.wait() == -signal.SIGKILL
    daemons.start("learner", "--resume", "--bind", address, "--run-dir", run_dir)
    status = status_when(address, lambda status: status.actors and status.actors[0].gradients > 5, "steps after it")
    assert (status.epoch, status.actors[0].name, status.actors[0].pid) == (2, "by-hand", actor.pid)
    assert status.run == kept.run
    assert status.refused == 0
    assert actor.running
