"""Many runs as tables of pandas."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.errors import ConfigurationError
from common.run.runs import RUNS
from deploy.runs.groups import groups
from deploy.runs.table import FoundRun, read_table
from deploy.runs.tidy import CURVE, curve_rows, run_rows

if TYPE_CHECKING:
    import pandas


def runs(folder: str | os.PathLike[str] = RUNS) -> pandas.DataFrame:
    """A table of all runs in a folder and in the folders in it, a row for each.

    Its columns are those of `a3cd runs --csv`: which run it is (run, group, env, algorithm, network, seed, state,
    created, id), how far it came (frames, seconds, episodes), its returns (mean_return and best_return of training,
    best_evaluation with its 95 % interval), and, named by their paths, the settings in which any two runs differ. Runs
    of one environment and one group differ only in their seed. Runs that cannot be read are left out with a warning.

    Raises ConfigurationError if there is no such folder, or no pandas; UnavailableError if the disk fails to read it.
    """
    pandas = _pandas()
    table = pandas.DataFrame(run_rows(groups(_found(Path(folder)))), columns=None)
    table["created"] = pandas.to_datetime(table["created"], utc=True) if len(table) else []
    return table


def curves(folder: str | os.PathLike[str] = RUNS, *, columns: Sequence[str] = CURVE) -> pandas.DataFrame:
    """A table of the learning curves of all runs in a folder, a row for each row of their metrics.

    Its columns are run, group, env, algorithm, seed, and `columns`: any numbers of metrics.jsonl, NaN where a row has
    none. Everything else is as in `runs`.
    """
    pandas = _pandas()
    rows = list(curve_rows(groups(_found(Path(folder))), columns))
    return pandas.DataFrame(rows, columns=["run", "group", "env", "algorithm", "seed", *columns])


def _found(folder: Path) -> list[FoundRun]:
    table = read_table([folder])
    if table.broken:
        named = "; ".join(table.broken)
        warnings.warn(f"{len(table.broken)} runs cannot be read and are left out: {named}", stacklevel=3)
    return table.runs


def _pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise ConfigurationError("tables of runs need pandas: pip install 'a3cd[pandas]'") from error
    return pandas
