"""The runs in a folder of runs, and a run by its name."""

from collections.abc import Iterator
from pathlib import Path

from common.errors import ConfigurationError, UnavailableError
from common.run.folder import RunFolder

RUNS = Path("runs")
"""Where `a3cd train` puts runs, below the working folder."""
LAST = "last"
"""The name of the newest run in RUNS."""
DEPTH = 4
"""Folders below the one that is looked through."""


def all_runs(folder: Path) -> list[RunFolder]:
    """Every run in `folder`, sorted by path: the folder itself, or what is in it or in folders in it.

    A folder that holds metrics or checkpoints counts as well, though its run cannot be read. Raises ConfigurationError
    if there is no such folder, UnavailableError if the disk does not give it.
    """
    if not folder.is_dir():
        what = "is a file, not a folder of runs" if folder.exists() else "there is no such folder"
        raise ConfigurationError(f"{folder}: {what}; `a3cd train` makes {RUNS}/")
    try:
        return list(_below(folder, DEPTH))
    except OSError as error:
        raise UnavailableError(f"{error.filename}: cannot be read now: {error.strerror}") from error


def _below(folder: Path, depth: int) -> Iterator[RunFolder]:
    run = RunFolder(folder)
    if any(mark.exists() for mark in (run.run_file, run.metrics_file, run.checkpoints)):
        yield run
        return
    for entry in sorted(folder.iterdir()):
        if depth and entry.is_dir() and not entry.name.startswith("."):
            yield from _below(entry, depth - 1)


def find_run(name: Path) -> Path:
    """The folder that `name` stands for: of `last` that of the newest run in RUNS, else `name` itself.

    A folder of the name `last` is `./last`. Raises ConfigurationError where `last` is asked for and there is no run,
    and where `name` is nothing at all, or a folder of runs.
    """
    if name == Path(LAST):
        return _newest()
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
            continue  # it is broken, and none to go on with
    if not created:
        raise ConfigurationError(f"{LAST}: there is no run in {RUNS.absolute()}; give the folder of one")
    return max(created, key=lambda path: created[path])
