"""Returns to the best checkpoint, with a smaller learning rate, when the mean return stays far below its best.

    fallen for LASTING_SECONDS -> ReadBest -> the shell reads it -> in place, as one more version -> a pause

The version only grows: actors load these weights like any newer ones, and the lag of contributions under way grows by
one. Counters and the best return stay as they are; only what a step depends on is restored.
"""

from common.errors import ConfigurationError
from common.rl.moments import Moments
from common.run.folder import Checkpoint
from learner.effects import Effect, Log, ReadBest
from learner.exchange.base import Exchange
from learner.parameters.weights import Weights
from learner.run import Run

LASTING_SECONDS = 60.0
"""How long, without a break, the learner's health must report that the mean return has fallen."""
PAUSE_SECONDS = 300.0
"""Shortest time between two attempts."""
MOST = 5
"""Most returns to the best checkpoint in a run: after so many, the learning rate is not the cause."""


class ReturnToBest:
    def __init__(self, run: Run, weights: Weights, exchange: Exchange, now: float) -> None:
        self._run = run
        self._weights = weights
        self._exchange = exchange
        self._section = run.spec.settings.checkpoint
        self._due = now
        self._since: float | None = None
        """Since when the mean return has been fallen without a break; None: it has not."""
        self._reading = False
        self._fresh = 0
        """Episode count of the run from which on the mean return covers only episodes since the last return."""
        self._await_window()

    def look(self, now: float, *, fallen: bool) -> list[Effect]:
        """Request the best checkpoint if it is time; to be called once a second or more often."""
        counters = self._run.stats.counters
        if not self._section.return_to_best or self._reading or counters.returns_to_best >= MOST:
            return []
        if not fallen or now < self._due or counters.episodes < self._fresh:
            self._since = None
            return []
        if self._since is None:
            self._since = now
        if now - self._since < LASTING_SECONDS:
            return []
        self._reading = True
        return [ReadBest()]

    def restore(self, now: float, checkpoint: Checkpoint | None, error: str) -> list[Effect]:
        """Restore the checkpoint that was read if it is better than the present weights; log what was done.

        `checkpoint` is None if it could not be read, and `error` says why.
        """
        self._reading = False
        self._since = None
        self._due = now + PAUSE_SECONDS
        stats = self._run.stats
        if checkpoint is not None:
            error = self._misfit(checkpoint)
        if checkpoint is not None and not error:
            try:
                moments = Moments.from_checkpoint(checkpoint.state, self._run.spec.counted)
                self._weights.restore(checkpoint.weights, checkpoint.optimizer, moments)
            except ConfigurationError as failure:
                error = str(failure)
        if checkpoint is None or error:
            text = f"no return to the best checkpoint: {error}"
        else:
            stats.returned_to_best(self._section.return_factor)
            factor = stats.counters.learning_rate_factor
            self._weights.optimizer.factor = factor
            self._exchange.weights_restored()
            self._run.saves.hurry(now)  # a learner that is killed now would resume with the previous weights
            self._await_window()
            which = f"version {checkpoint.version} ({_merit(checkpoint)})"
            number = f"{stats.counters.returns_to_best} of {MOST}"
            text = f"returned to the checkpoint of {which}, learning rate x {factor:.4g}; return {number}"
        stats.warn(text)
        return [Log("warning", text, own=True)]

    def _misfit(self, checkpoint: Checkpoint) -> str:
        """Return why the checkpoint is not restored; empty: it fits and is better."""
        score, evaluated = self._run.stats.score, self._run.stats.counters.evaluation
        named = f"that of version {checkpoint.version}"
        if checkpoint.state.get("model") != self._run.spec.model:
            return f"{named} holds another network"
        if (best := checkpoint.evaluation) is not None:
            if evaluated is not None and evaluated.version > best.version and evaluated.mean >= best.mean:
                return f"{named} ({_merit(checkpoint)}) is no better than the newest evaluation ({evaluated.mean:.4g})"
        elif checkpoint.score is None or score is None or checkpoint.score <= score:
            return f"{named} ({_merit(checkpoint)}) is no better than the run is now ({score})"
        return ""

    def _await_window(self) -> None:
        stats = self._run.stats
        self._fresh = stats.counters.episodes + stats.window.size


def _merit(checkpoint: Checkpoint) -> str:
    """Return by what the checkpoint is the best, as `common.run.folder.rank` has it."""
    if checkpoint.evaluation is not None:
        return f"evaluated at {checkpoint.evaluation.mean:.4g}"
    return "no mean return yet" if checkpoint.score is None else f"mean return {checkpoint.score:.4g}"
