"""MLflow: rows as metrics whose step is `frames`, settings as parameters."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # the caller tries again what fails

from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from common.errors import ConfigurationError
from deploy.tracking.rows import Row
from deploy.tracking.tracker import Target, TrackedRun

logging.getLogger("mlflow").setLevel(logging.WARNING)
MOST_METRICS, MOST_PARAMS = 1000, 100
"""Most metrics and parameters in one call, as MLflow's interface says."""
ID_TAG = "a3cd.run"
STATUS = {"failed": "FAILED", "interrupted": "KILLED", "stopped": "KILLED"}
"""MLflow's status by the state of the run; for other states FINISHED."""
_LASTING = {"INVALID_PARAMETER_VALUE", "BAD_REQUEST", "UNAUTHENTICATED", "PERMISSION_DENIED"}
"""Codes of errors that will not pass by themselves."""


class MlflowTracker:
    def __init__(self, client: MlflowClient, run_id: str) -> None:
        self._client = client
        self._id = run_id

    def log(self, rows: Sequence[Row]) -> None:
        self._send(
            [
                Metric(name, value, int(1e3 * row.time), row.frames)
                for row in rows
                for name, value in row.figures.items()
            ]
        )

    def conclude(self, state: str, summary: Mapping[str, float]) -> None:
        now, frames = int(1e3 * time.time()), int(summary.get("frames", 0))
        self._send([Metric(f"summary/{name}", value, now, frames) for name, value in summary.items()])
        self._client.set_tag(self._id, "a3cd.state", state)
        self._client.set_terminated(self._id, STATUS.get(state, "FINISHED"))

    def close(self) -> None:
        """Do nothing: no row is held back."""

    def _send(self, metrics: list[Metric]) -> None:
        for some in _parts(metrics, MOST_METRICS):
            self._client.log_batch(self._id, metrics=some)


def open_tracker(run: TrackedRun, target: Target) -> MlflowTracker:
    """Open the run with this id in its tag, or make it. Raises ConfigurationError for a wrong address."""
    try:
        client = MlflowClient(tracking_uri=target.uri or None)
        return MlflowTracker(client, _run_id(client, run, target.project))
    except MlflowException as error:
        if error.error_code not in _LASTING:
            raise
        raise ConfigurationError(f"MLflow: {str(error).strip().partition(chr(10))[0]}") from error


def _run_id(client: MlflowClient, run: TrackedRun, project: str) -> str:
    experiment = client.get_experiment_by_name(project)
    place = client.create_experiment(project) if experiment is None else experiment.experiment_id
    found = client.search_runs([place], f"tags.`{ID_TAG}` = '{run.id}'", max_results=1)
    one = found[0] if found else client.create_run(place, run_name=run.name, tags={ID_TAG: run.id})
    known: str = one.info.run_id
    client.update_run(known, status="RUNNING")
    # MLflow cannot change a parameter: those of a resumed run stay as they were at first.
    new = [Param(name, str(value)) for name, value in run.settings.items() if name not in one.data.params]
    for some in _parts(new, MOST_PARAMS):
        client.log_batch(known, params=some)
    return known


def _parts(some: list[Any], most: int) -> Iterator[list[Any]]:
    return (some[begin : begin + most] for begin in range(0, len(some), most))
