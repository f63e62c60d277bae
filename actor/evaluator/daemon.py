"""The evaluator daemon: the shell of the evaluator's core."""

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from actor.effects import Prepare
from actor.evaluator.core import EvaluatorCore
from actor.shell import Shell
from common.host.security.access import LearnerEndpoint
from common.host.service.signals import Signals
from common.wire.client import introduce

if TYPE_CHECKING:
    from actor.evaluator.player import EvaluationPlayer


def run(access: LearnerEndpoint, *, name: str = "", modules: Collection[str] = (), wait: float = 0.0) -> int:
    """Evaluates for the learner at `access` until the run is over or a signal comes; returns the exit code.

    If the learner is absent or refuses this evaluator, the evaluator asks again, at growing intervals. Arguments and
    errors are those of `actor.daemon.run`.
    """
    with Signals() as signals:
        hello = introduce("evaluator", access, name)
        return _Daemon(EvaluatorCore(hello, time.monotonic()), access, modules, wait, signals).run()


class _Daemon(Shell):
    players = "actor.evaluator.player"

    def _make_player(self, prepare: Prepare) -> "EvaluationPlayer":
        from actor.evaluator.player import EvaluationPlayer

        return EvaluationPlayer(prepare.welcome, prepare.settings)

    def _begin(self, prepare: Prepare) -> tuple[str, str]:
        settings = prepare.settings
        what = f"evaluating {settings.environment.id} in run {prepare.welcome.run}"
        return what, f"{settings.evaluation.episodes} episodes at a time"
