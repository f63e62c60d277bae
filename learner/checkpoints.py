"""When checkpoints are begun, what is in them, and who is told how that ended."""

from learner.effects import Effect, Log, SaveCheckpoint
from learner.evaluations import Evaluations
from learner.orders import Orders
from learner.parameters.weights import Weights
from learner.run import Run


class Checkpoints:
    """The schedule is `learner.save_schedule`; `learner.record.checkpoint` writes them."""

    def __init__(self, run: Run, weights: Weights, evaluations: Evaluations, orders: Orders) -> None:
        self._run = run
        self._weights = weights
        self._evaluations = evaluations
        self._orders = orders
        self._section = run.spec.settings.checkpoint
        self._saved_best = run.stats.window.best_return
        """The best score of which there is a checkpoint, as far as is known."""

    @property
    def keep_evaluated(self) -> bool:
        """Whether weights that are given to an evaluator are saved, because they may turn out to be the best."""
        return self._section.best and self._section.every_seconds > 0.0

    def is_due(self, now: float) -> bool:
        return now >= self._run.saves.deadline or self._improved(now)

    @property
    def is_ordered(self) -> bool:
        """As `Orders.checkpoint_ordered`."""
        return self._orders.checkpoint_ordered

    def begin(self, now: float) -> SaveCheckpoint:
        spec, stats = self._run.spec, self._run.stats
        self._run.saves.begin(now)
        self._orders.saving()
        self._saved_best = stats.window.best_return
        return SaveCheckpoint(
            version=stats.counters.version,
            weights=self._weights.vector,
            optimizer=self._weights.state(),
            state={
                "model": spec.model,
                "epoch": spec.epoch,
                "counters": stats.saved(now),
                "moments": self._weights.moments,
            },
            score=stats.score,
            under_evaluation=self._evaluations.under_way(),
        )

    def saved(self, now: float, version: int, error: str, path: str) -> list[Effect]:
        """Take the outcome of the oldest checkpoint whose outcome was not reported yet, in the folder `path`.

        If there is an `error`, the checkpoint is not on the disk, and saving is tried again soon.
        """
        answers = self._orders.saved(version, path, error)
        if not error:
            mended = self._run.saves.saved(version)
            line = Log("info", f"checkpoint of version {version} is written: all is well again", own=True)
            return [*answers, line] if mended else answers
        self._run.saves.failed(now, error)
        if version != self._run.saves.version:  # else an earlier checkpoint holds these weights
            self._evaluations.not_saved(version)
        self._saved_best = None
        text = f"the checkpoint could not be written: {error}"
        self._run.stats.warn(text)
        return [*answers, Log("error", f"{text} (version {version})", key="checkpoint", own=True)]

    def _improved(self, now: float) -> bool:
        """Whether the score is the best so far, and no checkpoint holds that best yet."""
        window = self._run.stats.window
        if not self._section.best or not self._run.saves.may_be_early(now):
            return False
        return window.score is not None and self._saved_best != window.best_return == window.score
