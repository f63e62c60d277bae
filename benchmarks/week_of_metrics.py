"""A week of metrics, written with a fast clock, resumed and drawn: its cost on disk, in memory and in time.

    python -m benchmarks week_of_metrics [--days 7] [--old]

--old: begin with a file that was never thinned, as earlier learners wrote it.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.tables import Cell
from common.run.folder import RunFolder
from learner.record import curve
from learner.record.metrics import MetricsWriter

DAY = 24 * 3600
MIB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--old", action="store_true")
    arguments = parser.parse_args()
    tables.machine()
    with tempfile.TemporaryDirectory() as place:
        rows = measure(RunFolder(Path(place)), int(arguments.days * DAY), old=arguments.old)
    title = f"{arguments.days:g} days of metrics, a row each second"
    tables.show(title, ("", "seconds", "metrics MiB", "events MiB", "peak RSS MiB"), rows)


def measure(folder: RunFolder, seconds: int, *, old: bool) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = [("nothing yet", 0.0, 0.0, 0.0, _peak())]

    def note(what: str, begun: float) -> None:
        events = sum(file.stat().st_size for file in folder.events.iterdir()) if folder.events.exists() else 0
        size = folder.metrics_file.stat().st_size
        rows.append((what, time.perf_counter() - begun, size / MIB, events / MIB, _peak()))

    begun = time.perf_counter()
    if old:
        with folder.metrics_file.open("w") as file:
            for second in range(seconds):
                file.write(json.dumps({"time": 1e9 + second, **row_of(second)}) + "\n")
        note("a file that was never thinned", begun)
    else:
        writer = MetricsWriter(folder, print)
        for second in range(seconds):
            writer.row(1e9 + second, row_of(second))
        writer.close()
        note("written", begun)
    begun = time.perf_counter()
    writer = MetricsWriter(folder, print)
    note("started upon", begun)
    begun = time.perf_counter()
    writer.row(1e9 + seconds, row_of(seconds))
    note("the first row", begun)
    writer.close()
    begun = time.perf_counter()
    curve.draw(folder.metrics_file, folder.curve, "a week", None)
    note("drawn", begun)
    return rows


def row_of(second: int) -> dict[str, Any]:
    """Return a row with as many columns as a learner's."""
    names = ("version", "gradients", "stale", "refused", "mean_return", "episode_length", "episode_seconds")
    rates = ("frames_per_second", "gradients_per_second", "bytes_per_second", "lag_mean", "lag_p95", "learner_busy")
    losses = ("policy_loss", "value_loss", "entropy", "gradient_norm")
    return {
        "seconds": second + 0.123456789,
        "frames": 4000 * second,
        "episodes": 20 * second,
        **dict.fromkeys((*names, *rates, *losses), second / 7),
        "why": "mean episode 23.1 s > 20 s: one more",
        "actors": 12,
        "actors_wanted": 12,
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
