"""Whether added actors brought frames: on a full host, each one takes from the others what it plays."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SENSIBLE = 0.25
"""Share of the previous actors' mean throughput that an added actor must bring."""
SURE = 2.0
"""Standard errors by which the gain must differ from that share."""
FEW = 3
"""Number of samples below which their spread tells nothing, and UNKNOWN is used instead."""
UNKNOWN = 0.1
"""Standard error of too few samples, as a share of the frames per second."""
FLOOR = 0.03
"""Smallest standard error, as a share of the frames per second: the load of other programs changes slowly."""


@dataclass(frozen=True)
class Throughput:
    """Mean frames per second of a number of actors, and the standard error of the mean."""

    actors: int
    mean: float
    error: float


def throughput(actors: int, samples: Sequence[float]) -> Throughput | None:
    """Return the throughput from frames per second in successive parts of the time; None without samples."""
    if not samples or not actors:
        return None
    mean = statistics.fmean(samples)
    if len(samples) < FEW:
        return Throughput(actors, mean, UNKNOWN * mean)
    return Throughput(actors, mean, max(FLOOR * mean, statistics.stdev(samples) / math.sqrt(len(samples))))


def has_grown(before: Throughput, after: Throughput) -> bool | None:
    """Return whether the actors added between the two bring a SENSIBLE share each; None: not clear."""
    due = before.mean * (after.actors - before.actors) / before.actors
    if due <= 0.0:
        return None
    part = (after.mean - before.mean) / due
    error = SURE * math.hypot(before.error, after.error) / due
    if part - error > SENSIBLE:
        return True
    return False if part + error < SENSIBLE else None
