"""The study: which trials there were and are to be, in a file of SQLite. The only place that knows Optuna."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from common.errors import ConfigurationError, UnavailableError
from common.host import file_lock
from deploy.cli.tune.plan import Plan, require_same
from deploy.cli.tune.space import Axis, Range

NAME = "a3cd"
"""Name of the only study in a file."""
SUFFIX = ".db"
PARTS = 10
"""Parts of a training, after each of which its trial may be given up."""
COMPLETE_FIRST = 5
"""Trials that are finished before any is given up: fewer have no median worth the name."""
PARTS_FIRST = 3
"""Parts of a trial before it may be given up: in the first ones all trials are equally bad."""
IMPORTANT_FROM = 20
"""Finished trials before it is said which settings mattered."""
_BUSY_SECONDS = 60.0
"""Longest wait for another process that writes into the file, such as one that looks (`--show`)."""

_NONE = "holds no study of `a3cd tune`; remove it, or choose another --study"

State = Literal["running", "finished", "given up", "failed", "interrupted", "waiting"]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A trial, for a table."""

    number: int
    state: State
    score: float | None
    """The score if the trial is finished, else None."""
    scores: list[float]
    """Scores of its trainings that ended, one for each seed."""
    values: dict[str, Any]
    """The values drawn, by key."""
    why: str
    """Why it failed; empty if it did not."""

    @property
    def over(self) -> bool:
        """Whether the trial is over; an interrupted one is not, since it is tried again."""
        return self.state in ("finished", "given up", "failed")


class Trial:
    """A trial that runs."""

    def __init__(self, trial: Any) -> None:
        self._trial = trial
        self.number: int = trial.number
        self.values: dict[str, Any] = dict(trial.params)

    def report(self, step: int, value: float) -> None:
        """Report a mean of the curve, once for each step."""
        self._trial.report(value, step)

    @property
    def hopeless(self) -> bool:
        """Whether it is worse than half of the others were at this step."""
        return bool(self._trial.should_prune())

    def ended(self, score: float) -> None:
        """Note the score of a training that has ended."""
        self._trial.set_user_attr("scores", [*self._trial.user_attrs.get("scores", []), score])

    def failed(self, why: str) -> None:
        self._trial.set_user_attr("failed", why)


class Study:
    """A study in its file. As a context manager, closes the file at its end."""

    def __init__(self, file: Path, *, seed: int = 0) -> None:
        """Open the study in an existing file; `seed`: the sampler's. Raises ConfigurationError and UnavailableError."""
        self._optuna = load()
        if not file.exists():
            raise ConfigurationError(f"{file}: there is no study there yet")
        self.file = file
        self._storage = _storage(self._optuna, file)
        try:
            with _taken(self._optuna, file):
                self._load(seed)
        except BaseException:
            self.close()
            raise

    def _load(self, seed: int) -> None:
        try:
            self._study = self._optuna.load_study(study_name=NAME, storage=self._storage)
            self.plan = msgspec.convert(self._study.user_attrs["plan"], Plan)
        except (KeyError, msgspec.ValidationError) as error:
            raise ConfigurationError(f"{self.file}: {_NONE}") from error
        samplers, pruners = self._optuna.samplers, self._optuna.pruners
        # The seed depends on the trials so far, so that a search that goes on does not draw the same values again.
        drawn = sum(one.state != "waiting" for one in self.trials())
        self._study.sampler = samplers.TPESampler(seed=seed + drawn)
        self._study.pruner = pruners.MedianPruner(n_startup_trials=COMPLETE_FIRST, n_warmup_steps=PARTS_FIRST)
        self._distributions = {axis.key: self._distribution(axis) for axis in self.plan.axes}

    def __enter__(self) -> "Study":
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Raises UnavailableError if a trial could not be written to the disk or read from it."""
        self.close()
        if isinstance(error, self._optuna.exceptions.StorageInternalError):
            raise _unusable(self.file, error) from error

    def close(self) -> None:
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _distribution(self, axis: Axis) -> Any:
        kinds = self._optuna.distributions
        if not isinstance(axis, Range):
            return kinds.CategoricalDistribution(axis.texts)
        kind = kinds.IntDistribution if axis.whole else kinds.FloatDistribution
        return kind(axis.low, axis.high, log=axis.log)

    def ask(self) -> Trial:
        """The next trial: one that was interrupted, or what the sampler draws."""
        return Trial(self._study.ask(self._distributions))

    def finish(self, trial: Trial, score: float) -> None:
        self._study.tell(trial.number, score)

    def give_up(self, trial: Trial) -> None:
        """Give up a trial, also one that failed: the sampler is to know that it is not worth another try."""
        self._study.tell(trial.number, state=self._optuna.trial.TrialState.PRUNED)

    def try_interrupted_again(self) -> int:
        """Queue the trials again that the file says are running, although nobody runs them. Returns how many."""
        states = self._optuna.trial.TrialState
        found = self._study.get_trials(deepcopy=False, states=(states.RUNNING,))
        for one in found:
            # In this order: if this process is killed in between, the trial is tried twice instead of being lost.
            self._study.enqueue_trial(dict(one.params))
            self._study.tell(one.number, state=states.FAIL)
        return len(found)

    @property
    def done(self) -> int:
        """Trials that are over; those that were interrupted do not count."""
        return sum(one.over for one in self.trials())

    def trials(self) -> list[Told]:
        """All trials, the best first; those without a score come last."""
        told = [self._told(one) for one in self._study.get_trials(deepcopy=False)]
        return sorted(told, key=lambda one: (one.score is None, -(one.score or 0.0), one.number))

    def _told(self, trial: Any) -> Told:
        states = self._optuna.trial.TrialState
        attributes = trial.user_attrs
        names: dict[Any, State] = {
            states.RUNNING: "running",
            states.WAITING: "waiting",
            states.COMPLETE: "finished",
            states.PRUNED: "failed" if "failed" in attributes else "given up",
            states.FAIL: "interrupted",
        }
        return Told(
            number=trial.number,
            state=names[trial.state],
            score=trial.value if trial.state == states.COMPLETE else None,
            scores=attributes.get("scores", []),
            values=dict(trial.params),
            why=attributes.get("failed", ""),
        )

    def importance(self) -> dict[str, float]:
        """Each setting's share in the differences between the scores, the largest first; empty: not known yet."""
        if sum(one.state == "finished" for one in self.trials()) < IMPORTANT_FROM:
            return {}
        try:
            found: dict[str, float] = self._optuna.importance.get_param_importances(self._study)
        except (ValueError, RuntimeError):  # all scores are the same
            return {}
        return found


def open_study(plan: Plan, file: Path, *, seed: int) -> Study:
    """The study in the file, or a new one, whose first trial has the settings' own values, without any search.

    Raises ConfigurationError for a study of another plan, and as `Study`.
    """
    optuna = load()
    if file.exists():
        study = Study(file, seed=seed)
        try:
            require_same(plan, study.plan, file)
        except ConfigurationError:
            study.close()
            raise
        return study
    if any(folder_of(file).glob("trial-*")):
        text = f"{folder_of(file)}: holds trials, and there is no {file}"
        raise ConfigurationError(f"{text}; remove the folder, or choose another --study")
    try:
        _make(optuna, plan, file)
    except BaseException:  # Ctrl-C, too
        file.unlink(missing_ok=True)  # half of a study would be in the way, once there is room
        raise
    return Study(file, seed=seed)


def _make(optuna: Any, plan: Plan, file: Path) -> None:
    """Make the file of a new study. Raises UnavailableError if the disk does not take it."""
    storage = _storage(optuna, file)
    try:
        with _taken(optuna, file):
            made = optuna.create_study(storage=storage, study_name=NAME, direction="maximize")
            if own := plan.unsearched:
                made.enqueue_trial(own)
            made.set_user_attr("plan", msgspec.to_builtins(plan))  # last, since only this makes it a study
    finally:
        storage.remove_session()
        storage.engine.dispose()


def locked(file: Path) -> IO[str]:
    """Lock the study in the file, so that nobody else works on it until the returned file is closed.

    Raises UnavailableError.
    """
    lock = folder_of(file) / "lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            held = stack.enter_context(lock.open("a", encoding="utf-8"))
            file_lock.lock(held, wait=False)
            stack.pop_all()
            return held
    except BlockingIOError as error:
        raise UnavailableError(f"{file}: another `a3cd tune` is at work on it; --show tells how far it is") from error
    except OSError as error:
        raise UnavailableError(f"{error.filename or lock}: cannot be used now: {error.strerror}") from error


def folder_of(file: Path) -> Path:
    """Where the trials of the study in this file have their run folders. Raises ConfigurationError."""
    if file.suffix != SUFFIX:
        raise ConfigurationError(
            f"--study {file}: must end in {SUFFIX}; trials go into the folder of that name without it"
        )
    return file.with_suffix("")


def load() -> Any:
    """Optuna, which takes a second to load. Raises ConfigurationError where it is not installed."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "a3cd tune needs optuna, which is not installed here: pip install 'a3cd[tune]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _storage(optuna: Any, file: Path) -> Any:
    """Raises ConfigurationError for a file that is no database of Optuna's, UnavailableError for one of no use now."""
    _require_database(file)
    options = {"connect_args": {"timeout": _BUSY_SECONDS}}
    try:
        with _taken(optuna, file):
            return optuna.storages.RDBStorage(f"sqlite:///{file.absolute()}", engine_kwargs=options)
    except RuntimeError as error:  # a file of another version of Optuna; the error says what to do
        raise ConfigurationError(f"{file}: {error}") from error


@contextlib.contextmanager
def _taken(optuna: Any, file: Path) -> Iterator[None]:
    """Raises UnavailableError for what the disk did not take or give inside."""
    from sqlalchemy.exc import OperationalError  # Optuna lets those of a new file pass

    try:
        yield
    except (optuna.exceptions.StorageInternalError, OperationalError) as error:
        raise _unusable(file, error) from error


def _unusable(file: Path, error: Exception) -> UnavailableError:
    return UnavailableError(f"{file}: cannot be used now: {str(error.__cause__ or error).splitlines()[0]}")


def _require_database(file: Path) -> None:
    """Raises as `_storage` unless the file is new, or a database of Optuna's."""
    try:
        with contextlib.closing(sqlite3.connect(file, timeout=_BUSY_SECONDS)) as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.OperationalError as error:
        raise UnavailableError(f"{file}: cannot be used now: {error}") from error
    except sqlite3.DatabaseError as error:
        raise ConfigurationError(f"{file}: {_NONE} ({error})") from error
    if tables and "studies" not in tables:
        raise ConfigurationError(f"{file}: {_NONE}")
