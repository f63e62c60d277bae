"""The evaluator's shell, in this process; its learner is in a thread."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import zmq

from actor.evaluator.daemon import run
from common.errors import EXIT_DONE
from common.host.security.access import LearnerEndpoint
from common.wire.messages import Evaluation, Goodbye, Pull, Stop, Weights
from tests.helpers.beside import beside
from tests.helpers.run import settings_of
from tests.helpers.scripted import Learner

SMALL = ("network.hidden=[4]", "environment.num_envs=2", "evaluation.episodes=3")


@pytest.fixture
def evaluate(context: zmq.Context[zmq.Socket[bytes]]) -> Callable[..., int]:
    """Runs an evaluator while `script(learner)` runs beside it; the evaluator's exit code."""

    def one(script: Callable[[Learner], None], *assignments: str) -> int:
        learner = Learner(context, settings_of(*SMALL, *assignments))
        return beside(lambda: script(learner), lambda: run(LearnerEndpoint(learner.address), name="e"))

    return one


def test_it_takes_the_signals_before_the_slow_imports() -> None:
    script = "import sys, actor.evaluator.daemon; print(sorted({'gymnasium', 'numpy', 'torch'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_it_evaluates_until_the_run_is_over(evaluate: Callable[..., int]) -> None:
    def script(learner: Learner) -> None:
        hello = learner.welcome(codec="")
        assert (hello.role, hello.name) == ("evaluator", "e")
        pull, _ = learner.hear(Pull)
        assert pull.whole
        learner.say(Weights(version=4, epoch=1), learner.weights(0.0))
        evaluation, _ = learner.hear(Evaluation)
        assert (evaluation.run, evaluation.version, len(evaluation.episodes)) == ("a-run", 4, 3)
        pull, _ = learner.hear(Pull)
        assert (pull.version, pull.whole) == (4, False)
        learner.say(Weights(version=4, epoch=1))
        again, _ = learner.hear(Evaluation)
        assert again.version == 4
        learner.say(Stop(reason="reached", final=True))
        learner.hear(Goodbye)

    assert evaluate(script) == EXIT_DONE


def test_a_learner_that_comes_back_is_joined_again(evaluate: Callable[..., int]) -> None:
    def script(learner: Learner) -> None:
        learner.welcome(codec="")
        learner.hear(Pull)
        learner.cut()
        learner.welcome(codec="", epoch=2)
        learner.hear(Pull, lambda pull: pull.whole)
        learner.say(Weights(version=9, epoch=2), learner.weights(0.0))
        evaluation, _ = learner.hear(Evaluation)
        assert (evaluation.epoch, evaluation.version) == (2, 9)
        learner.say(Stop(reason="reached", final=True))
        learner.hear(Goodbye)

    assert evaluate(script) == EXIT_DONE
