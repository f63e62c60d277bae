"""The rows of a run's metrics as trackers take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from common.run.metrics_rows import row_time
from learner.record.metrics import numbers

OWN_TABLES = frozenset({"actor_frames_per_second"})
"""Tables with a name for each actor. Actors come and go, but a tracker would keep a column for each one for ever."""


@dataclass(frozen=True)
class Row:
    number: int
    """Counted from 0; the count goes on where the run is followed again."""
    time: float
    """Seconds since 1970."""
    figures: dict[str, float]
    """Numbers by their names; those of a table are called TABLE/NAME."""

    @property
    def frames(self) -> int:
        return int(self.figures.get("frames", 0))


def tracked(number: int, row: dict[str, Any]) -> Row:
    """A row of metrics.jsonl without what trackers have no place for."""
    told = {name: value for name, value in row.items() if name not in OWN_TABLES and name != "time"}
    return Row(number, row_time(row), dict(numbers(told)))
