"""Whether actors that were added brought frames: on a full host each takes from the others what it plays."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SENSIBLE = 0.25
"""Part of what the actors before brought, each on average, that an added one must bring."""
SURE = 2.0
"""Standard errors by which the gain must differ from that."""
FEW = 3
"""Samples below which their spread tells nothing, and UNKNOWN is taken."""
UNKNOWN = 0.1
FLOOR = 0.03
"""Part of the frames per second that is taken for noise at the least: other programs come and go slowly."""


@dataclass(frozen=True)
class Throughput:
    """Frames per second of so many actors, and the standard error of that."""

    actors: int
    mean: float
    error: float


def throughput(actors: int, samples: Sequence[float]) -> Throughput | None:
    """From frames per second in successive seconds; None without any."""
    if not samples or not actors:
        return None
    mean = statistics.fmean(samples)
    if len(samples) < FEW:
        return Throughput(actors, mean, UNKNOWN * mean)
    return Throughput(actors, mean, max(FLOOR * mean, statistics.stdev(samples) / math.sqrt(len(samples))))


def has_grown(before: Throughput, after: Throughput) -> bool | None:
    """Whether the actors added between the two bring a sensible part of what each of those before did; None: unsure."""
    due = before.mean * (after.actors - before.actors) / before.actors
    if due <= 0.0:
        return None
    part = (after.mean - before.mean) / due
    error = SURE * math.hypot(before.error, after.error) / due
    if part - error > SENSIBLE:
        return True
    return False if part + error < SENSIBLE else None
