"""The search: some trials at a time, each with its trainings one after the other, until there have been enough."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from common.errors import EXIT_DONE, HOPELESS, ConfigurationError, UnavailableError
from deploy.cli.tune.curve import marks, mean, points
from deploy.cli.tune.plan import Plan
from deploy.cli.tune.study import PARTS, Study, Trial
from deploy.cli.tune.training import Start, Training

FAILURES = 3
"""Failed trials in a row that end the search: then it is not the trials that are wrong."""
READ_SECONDS = 1.0
"""Time between two looks at a training's metrics."""


@dataclass
class _Running:
    trial: Trial
    training: Training
    read_at: float
    scores: list[float] = field(default_factory=list)
    reported: int = 0
    """Parts of the current training that have been reported."""


@dataclass(frozen=True)
class Ended:
    """A trial that is over."""

    number: int
    outcome: str
    """The outcome in words."""


class Search:
    """The search without a clock: whoever has clock and signals is to call `look` often."""

    def __init__(self, study: Study, folder: Path, start: Start, *, trials: int, jobs: int) -> None:
        self._study = study
        self._plan: Plan = study.plan
        self._folder = folder
        self._start = start
        self._left = max(0, trials - study.done)
        self._jobs = jobs
        self._running: list[_Running] = []
        self._failures = 0

    @property
    def over(self) -> bool:
        return not self._left and not self._running

    def look(self, now: float) -> list[Ended]:
        """Starts what there is room for, and returns the trials that are over.

        Raises ConfigurationError where no training can ever do, UnavailableError where one after the other fails.
        """
        while self._left and len(self._running) < self._jobs:
            self._left -= 1
            trial = self._study.ask()
            try:
                self._running.append(_Running(trial, self._begin(trial, 0), now))
            except ConfigurationError as error:  # these values do not go together
                return [self._failed(trial, str(error))]
        return [ended for one in list(self._running) for ended in self._look_at(one, now)]

    def stop(self) -> int:
        """Ends all trainings; their trials are tried again. Returns how many trials those are."""
        for one in self._running:
            one.training.ask_to_end()
        for one in self._running:
            one.training.end()
        self._running.clear()
        return self._study.try_interrupted_again()

    def _begin(self, trial: Trial, number: int) -> Training:
        settings = self._plan.training(trial.values, number)
        return self._start(settings, self._folder / f"trial-{trial.number:04}" / f"seed-{settings.seed}")

    def _look_at(self, one: _Running, now: float) -> Iterator[Ended]:
        code = one.training.exit_code
        if code is None and now < one.read_at + READ_SECONDS:
            return
        one.read_at = now
        curve = points(one.training.rows(), self._plan)
        last = code is not None and len(one.scores) + 1 == self._plan.seeds
        if code not in (None, EXIT_DONE):
            self._running.remove(one)
            why = one.training.last_line
            if code in HOPELESS and not self._study.done:
                raise ConfigurationError(f"trial {one.trial.number}: {why}")
            yield self._failed(one.trial, why)
        elif code == EXIT_DONE and not curve:
            self._running.remove(one)
            what = "evaluation" if self._plan.score == "evaluation" else "episode"
            yield self._failed(one.trial, f"a training ended before its first {what}: it has to be longer")
        elif self._is_hopeless(one, curve) and not last:
            self._give_up(one)
            yield Ended(one.trial.number, f"given up after {_parts(one)}: worse than half of the others were there")
        elif code == EXIT_DONE:
            yield from self._ended(one, mean(curve, curve[-1][0]))

    def _is_hopeless(self, one: _Running, curve: list[tuple[float, float]]) -> bool:
        """Reports how far the curve has come; returns whether the trial is to be given up."""
        found = marks(curve, self._plan.length, PARTS)
        hopeless = False
        for value in found[one.reported :]:
            one.reported += 1
            one.trial.report(len(one.scores) * PARTS + one.reported, value)
            hopeless = hopeless or one.trial.hopeless
        return hopeless

    def _give_up(self, one: _Running) -> None:
        one.training.end()
        self._running.remove(one)
        self._failures = 0
        self._study.give_up(one.trial)

    def _ended(self, one: _Running, score: float) -> Iterator[Ended]:
        one.scores.append(score)
        one.trial.ended(score)
        self._failures = 0
        if len(one.scores) < self._plan.seeds:
            one.training, one.reported = self._begin(one.trial, len(one.scores)), 0
            return
        self._running.remove(one)
        total = of_trial(one.scores)
        self._study.finish(one.trial, total)
        yield Ended(one.trial.number, f"{total:.4g}")

    def _failed(self, trial: Trial, why: str) -> Ended:
        trial.failed(why)
        self._study.give_up(trial)
        self._failures += 1
        if self._failures >= FAILURES:
            raise UnavailableError(f"{FAILURES} trials in a row failed, trial {trial.number} so: {why}")
        return Ended(trial.number, f"failed: {why}")


def of_trial(scores: list[float]) -> float:
    """Return a trial's score: the mean of the worse half of its trainings' scores, with the middle one.

    The median would hide a training that failed; the mean would be the luckiest's where good returns differ widely.
    """
    return fmean(sorted(scores)[: (len(scores) + 1) // 2])


def _parts(one: _Running) -> str:
    return f"{100 * one.reported // PARTS} % of training {len(one.scores) + 1}"


def search(search: Search, hear: Callable[[Ended], None], interrupted: Callable[[], bool], look_seconds: float) -> bool:
    """Search until it is over or `interrupted`; returns whether it is over. Whatever ends it, no training is left."""
    try:
        while not search.over and not interrupted():
            for ended in search.look(time.monotonic()):
                hear(ended)
            time.sleep(look_seconds)
        return search.over
    finally:
        search.stop()
