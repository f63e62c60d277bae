"""The evaluator of a training on this machine: a process at the lowest priority, started once the run has lasted."""

import logging
import math
from collections.abc import Callable, Sequence

from common.errors import EXIT_DONE
from common.host.addresses import Address
from common.host.backoff import Backoff
from common.settings.sections import Settings
from deploy.children import Child

AFTER_SECONDS = 45.0
"""Seconds of training before the evaluator starts: a shorter one would pay for a process, and for a last evaluation."""
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 10.0, 600.0
"""Pause before an evaluator that ended is started again; twice as long each time."""
NICENESS = "19"
"""The evaluator takes what learner and actors leave of the processors."""

_log = logging.getLogger(__name__)


def words(address: Address, modules: Sequence[str]) -> list[str]:
    """The arguments of `a3cd` for an evaluator of a learner without keys, as that of a training on this machine is.

    `modules`: options that allow it to import modules.
    """
    return ["evaluator", str(address), "--insecure", "--name", "here", "--nice", NICENESS, *modules]


class Evaluating:
    """Starts the evaluator. Nobody waits for its end: it has nothing to lose, and the owner of the children ends it."""

    def __init__(
        self, start: Callable[..., Child], settings: Settings, address: Address, modules: Sequence[str], now: float
    ) -> None:
        """`start`: starts `a3cd` with the arguments given. `modules`: options that allow it to import modules.

        With evaluation.episodes = 0 nothing is ever started. If the run is to end by an evaluation, the evaluator
        starts at once.
        """
        self._start = start
        self._words = words(address, modules)
        self._pauses = Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        self._child: Child | None = None
        waited_for = settings.limits.until_return_of == "evaluation" and settings.limits.until_return is not None
        self._due = now if waited_for else now + AFTER_SECONDS
        if not settings.evaluation.episodes:
            self._due = math.inf

    def look(self, now: float) -> None:
        """Starts it when it is time, and again if it ended before the run; to be called often."""
        if self._child is not None and (code := self._child.exit_code) is not None:
            self._child = None
            self._due = math.inf if code == EXIT_DONE else now + self._pauses.next()
        if self._child is None and now >= self._due:
            try:
                self._child = self._start(*self._words)
            except OSError as error:  # such as too many processes: the training goes on without it
                self._due = now + self._pauses.next()
                _log.warning(f"the evaluator cannot be started now: {error.strerror}")
