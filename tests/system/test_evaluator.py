"""An evaluator beside a learner and an actor, each started by hand."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path

import pytest

from common.errors import EXIT_DONE, EXIT_SIGTERM, DamagedCheckpointError
from common.run.folder import RunFolder
from common.run.status import RunStatus
from tests.helpers.daemons import Daemons, free_address, status_when, terminate
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SETTINGS = """
[environment]
id = "CartPole-v1"
num_envs = 4
step_seconds = 0.002 # a core is left for the tests
[network]
hidden = [8]
[checkpoint]
every_seconds = 1.0
[evaluation]
episodes = 4
every_seconds = 1.0
[limits]
"""
GOAL = f'{SETTINGS}until_return = 1e9\nuntil_return_of = "evaluation"\n'


def confirmed(status: RunStatus) -> bool:
    return status.best_evaluation is not None and status.evaluations > 1


def evaluated(run_dir: Path) -> bool:
    """Whether a checkpoint of the run has its evaluation."""
    for checkpoint in RunFolder(run_dir).all_checkpoints():
        with contextlib.suppress(DamagedCheckpointError):  # one that is removed just now
            if checkpoint.read().evaluation is not None:
                return True
    return False


@pytest.mark.long
def test_the_best_weights_are_kept_by_their_evaluation_and_the_learner_is_killed_and_comes_back(
    daemons: Daemons,
) -> None:
    address, run_dir = free_address(), daemons.folder / "run"
    evaluator = daemons.start("evaluator", address, "--name", "judge", "--nice", 19)
    words = ("learner", "--bind", address, "--run-dir", run_dir)
    learner = daemons.start(*words, "--config", daemons.config(GOAL))
    actor = daemons.start("actor", address)
    first = status_when(address, confirmed, "a best evaluation")
    assert first.best_evaluation is not None
    assert first.best_evaluation.episodes == 8, "two evaluations of the same weights"
    assert 8 <= first.best_evaluation.mean <= 500

    until(lambda: evaluated(run_dir), "a checkpoint with its evaluation", of=learner)

    learner.signal(signal.SIGKILL)
    learner.wait()
    learner = daemons.start(*words, "--resume")
    again = status_when(address, lambda status: status.epoch == 2 and confirmed(status), "the learner that is back")
    more = status_when(address, lambda status: status.evaluations > again.evaluations, "an evaluation of the new epoch")
    assert more.best_evaluation is not None
    assert terminate(learner, evaluator, actor) == [EXIT_SIGTERM] * 3
    goal = ("--set", "limits.until_return=0")
    learner = daemons.run(*words, "--config", daemons.config(GOAL), "--resume", *goal)
    assert "reached 0" in learner.said, "by what was evaluated before"
    assert evaluated(run_dir)


def test_a_run_ends_with_an_evaluation_of_its_last_weights(daemons: Daemons) -> None:
    address, run_dir = free_address(), daemons.folder / "run"
    config = daemons.config(f"{SETTINGS}frames = 2000\n")
    learner = daemons.start("learner", "--bind", address, "--run-dir", run_dir, "--config", config)
    evaluator = daemons.start("evaluator", address)
    status_when(address, lambda status: status.evaluations > 0, "an evaluation of the first weights")
    actor = daemons.start("actor", address)
    assert [daemon.wait() for daemon in (learner, evaluator, actor)] == [EXIT_DONE] * 3
    assert "the last weights are evaluated, then the run ends" in learner.said
    folder = RunFolder(run_dir)
    newest = folder.all_checkpoints()[-1].read()
    rows = [json.loads(row) for row in folder.metrics_file.read_text().splitlines()]
    assert newest.version == rows[-1]["evaluation_version"] == rows[-1]["version"] > 0
    assert folder.summary()["state"] == "finished"
