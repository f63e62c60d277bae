"""`a3cd train` interrupted politely, impatiently and brutally."""

from __future__ import annotations

import signal
import time

import pytest

from common.errors import EXIT_SIGINT
from common.host.service.signals import ECHO_SECONDS
from common.run.folder import RunFolder
from tests.helpers.daemons import Daemon, Daemons
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

ENDLESS = (
    *("--set", "limits.frames=0", "--set", "limits.until_return=1e9"),
    *("--set", "environment.step_seconds=0.002"),
    *("--set", "limits.until_return_of=evaluation"),  # so there is an evaluator from the beginning
)


def at_work(training: Daemon, frames: int = 0) -> None:
    """Learner, launcher, two actors and an evaluator are there, and more than `frames` frames have been played."""
    until(lambda: len(training.members("actor")) == 2, "two actors of", of=training)
    until(lambda: len(training.members("evaluator")) == 1, "an evaluator of", of=training)
    training.wait_for_frames(frames)


@pytest.mark.long
def test_interrupted_resumed_and_killed(daemons: Daemons) -> None:
    run_dir = daemons.folder / "run"
    folder = RunFolder(run_dir)
    training = daemons.start("train", "CartPole-v1", *ENDLESS, "--run-dir", run_dir, "--json")
    at_work(training)
    training.signal(signal.SIGINT)
    assert training.wait() == EXIT_SIGINT
    assert training.at_work() == []
    newest = folder.newest()
    assert newest is not None
    counters = newest.read().state["counters"]
    result = training.result
    assert (result["state"], result["frames"], result["epoch"]) == ("stopped", counters["frames"], 1)
    assert counters["frames"] > 0

    training = daemons.start("train", "CartPole-v1", "--resume", "--run-dir", run_dir, "--json")
    training.wait_for(f"resumed at version {counters['version']}, {counters['frames']} frames")
    at_work(training, counters["frames"])
    assert folder.record().epoch == 2
    assert len(training.at_work()) == 6, "train, learner, launcher, two actors, evaluator"
    training.signal(signal.SIGKILL)
    until(lambda: not training.family(), "nobody left of", of=training)
    again = folder.newest()
    assert again is not None
    assert again.read().version >= newest.order[0], "what was kept is whole"


def test_a_second_signal_waits_for_nobody(daemons: Daemons) -> None:
    run_dir = daemons.folder / "run"
    training = daemons.start("train", "CartPole-v1", *ENDLESS, "--run-dir", run_dir)
    until(RunFolder(run_dir).run_file.exists, "a learner of", of=training)
    (learner,) = training.members("learner")
    learner.suspend()  # it cannot answer
    training.signal(signal.SIGINT)
    time.sleep(2 * ECHO_SECONDS)
    assert training.running
    training.signal(signal.SIGINT)
    assert training.wait() == EXIT_SIGINT
    assert learner.is_running(), "waited for, it would have been killed"
    learner.resume()
    until(lambda: not training.family(), "nobody left of", of=training)
