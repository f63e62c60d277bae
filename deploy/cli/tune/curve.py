"""A training's score: the mean of its curve, from the beginning to its end or to any point on the way."""

from collections.abc import Iterable, Sequence
from typing import Any

from deploy.cli.tune.plan import Plan

Points = list[tuple[float, float]]
"""Pairs of how far the training was (frames or seconds) and the return there, ascending."""


def points(rows: Iterable[dict[str, Any]], plan: Plan) -> Points:
    """The points in rows of metrics: each row's training return, or each evaluation once, where its weights were."""
    evaluated = plan.score == "evaluation"
    at = f"evaluation_{plan.measure}" if evaluated else plan.measure
    of = "evaluation_return" if evaluated else "mean_return"
    found = {float(row[at]): float(row[of]) for row in rows if row.get(at) is not None and row.get(of) is not None}
    return sorted(found.items())


def mean(curve: Sequence[tuple[float, float]], end: float) -> float:
    """The mean of the curve from 0 to `end`: linear between its points, constant before the first and after the last.

    Raises ValueError for a curve without a point, or an end that is not above 0.
    """
    if not curve or end <= 0:
        raise ValueError("a curve has a point, and its end is above 0")
    area, (last_at, last) = 0.0, (0.0, curve[0][1])
    for at, value in (*curve, (max(end, curve[-1][0]), curve[-1][1])):
        if at >= end:
            share = (end - last_at) / (at - last_at) if at > last_at else 1.0
            return (area + (end - last_at) * (last + last + share * (value - last)) / 2) / end
        area += (at - last_at) * (last + value) / 2
        last_at, last = at, value
    raise AssertionError("the last point is at the end")


def marks(curve: Sequence[tuple[float, float]], length: float, parts: int) -> list[float]:
    """The means up to the end of each of `parts` equal parts of `length`, as far as the curve has come.

    They do not depend on when they are computed, so that trials are compared at the same points.
    """
    reached = curve[-1][0] if curve else 0.0
    ends = (length * part / parts for part in range(1, parts + 1))
    return [mean(curve, end) for end in ends if end <= reached]
