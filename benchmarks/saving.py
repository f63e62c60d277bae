"""Time for which saving a checkpoint holds up the learner's thread: the copy, and the longest pause during writing.

    python -m benchmarks saving [--parameters 1000000 33000000] [--fsync 0.0 2.0]

A thread that should wake up every millisecond stands for the learner. --fsync: seconds added to each fsync, as on a
slow disk.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from pathlib import Path
from unittest import mock

import torch

from benchmarks import tables
from common.run.folder import RunFolder
from common.settings.sections import Checkpoint
from learner.effects import SaveCheckpoint
from learner.record.run_writer import RunWriter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, nargs="+", default=[1_000_000, 33_000_000])
    parser.add_argument("--fsync", type=float, nargs="+", default=[0.0, 2.0])
    arguments = parser.parse_args()
    tables.machine()
    torch.set_num_threads(1)
    rows = []
    for size in arguments.parameters:
        for delay in arguments.fsync:
            with slow_disk(delay), tempfile.TemporaryDirectory() as place:
                rows.append((f"{size:,}", delay, *measure(Path(place), size)))
    columns = ("parameters", "fsync + s", "handed over, ms", "longest pause, ms", "on the disk, s")
    tables.show("Saving weights and two vectors of the optimizer", columns, rows)


def slow_disk(delay: float) -> contextlib.AbstractContextManager[object]:
    """Make each fsync take `delay` seconds longer."""
    sync = os.fsync

    def slow(descriptor: int) -> None:
        time.sleep(delay)
        sync(descriptor)

    return mock.patch("os.fsync", slow)


def measure(place: Path, size: int) -> tuple[float, float, float]:
    writer = RunWriter(RunFolder(place), Checkpoint())
    weights = torch.rand(size)
    save = SaveCheckpoint(1, weights, {"mean": weights, "square": weights}, {}, None)
    begun = time.perf_counter()
    writer.save(save)
    handed = time.perf_counter() - begun
    longest, last = 0.0, time.perf_counter()
    while not writer.saved():
        time.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    took = time.perf_counter() - begun
    writer.close(60.0)
    return 1e3 * handed, 1e3 * longest, took


if __name__ == "__main__":
    main()
