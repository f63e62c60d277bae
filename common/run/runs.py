"""The runs in a folder of runs, and a run by its name."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from common.errors import ConfigurationError, UnavailableError
from common.run.folder import RunFolder

RUNS = Path("runs")
"""Where `a3cd train` puts runs, below the working folder."""
LAST = "last"
"""The name of the newest run in RUNS."""
DEPTH = 4
"""Levels of folders below the given one that are searched."""


def all_runs(folder: Path) -> list[RunFolder]:
    """Return every run in `folder`, sorted by path: the folder itself, or the runs in it and in folders in it.

    A folder that holds metrics or checkpoints counts as well, even if its run cannot be read. Folders in `folder` that
    this user may not open are passed over. Raises ConfigurationError if there is no such folder, UnavailableError if
    the disk cannot read it.
    """
    with _told():
        if not folder.is_dir():
            what = "is a file, not a folder of runs" if folder.exists() else "there is no such folder"
            raise ConfigurationError(f"{folder}: {what}; `a3cd train` makes {RUNS}/")
        return list(_below(folder, DEPTH))


def _below(folder: Path, depth: int) -> Iterator[RunFolder]:
    run = RunFolder(folder)
    if any(mark.exists() for mark in (run.run_file, run.metrics_file, run.checkpoints)):
        yield run
        return
    for entry in sorted(folder.iterdir()):
        if depth and entry.is_dir() and not entry.name.startswith("."):
            with contextlib.suppress(PermissionError):  # lost+found, where a disk of its own is mounted, for one
                yield from _below(entry, depth - 1)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Raise UnavailableError for an OSError."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"{error.filename}: cannot be read now: {error.strerror}") from error


def find_run(name: Path) -> Path:
    """Return the folder that `name` stands for: the newest run in RUNS for `last`, else `name` itself.

    A folder called `last` is named by its absolute path, since `./last` is the same Path as `last`. Raises
    ConfigurationError for `last` if there is no run, and for a `name` that does not exist or is a folder of runs,
    UnavailableError if the disk cannot tell.
    """
    if name == Path(LAST):
        return _newest()
    with _told():
        if not name.exists():
            raise ConfigurationError(f"{name}: there is no such folder; `a3cd runs` lists the runs in {RUNS}/")
    run = RunFolder(name)
    if name.is_dir() and not run.holds_run():
        inside = sorted(file.parent for file in name.glob(f"*/{run.run_file.name}"))
        if inside:
            raise ConfigurationError(f"{name}: holds no run itself, but runs in folders, such as {inside[-1]}")
    return name


def _newest() -> Path:
    created = {}
    for run in all_runs(RUNS) if RUNS.is_dir() else []:
        try:
            created[run.path] = run.record().created
        except ConfigurationError:
            continue  # a broken run, from which nobody can go on
    if not created:
        raise ConfigurationError(f"{LAST}: there is no run in {RUNS.absolute()}; give the folder of one")
    return max(created, key=lambda path: created[path])
