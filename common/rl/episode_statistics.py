"""What the returns of independent episodes say about the agent that played them."""

import math
from collections.abc import Sequence

import msgspec

Z = 1.959963984540054
"""The 0.975 quantile of the standard normal distribution."""
_FEW = (math.inf, 12.706205, 4.302653, 3.182446)
"""The 0.975 quantile of Student's t for 0 to 3 degrees of freedom, where the expansion is not accurate enough."""
TRIMMED = 0.25
"""Fraction of the returns that the interquartile mean leaves out at either end."""


class ReturnStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of undiscounted returns."""

    episodes: int
    mean: float
    low: float | None
    """Lower end of the 95 % confidence interval of the mean, by Student's t; None for a single episode."""
    high: float | None
    """Its upper end."""
    std: float
    """Standard deviation of the episodes' returns (not the error of their mean)."""
    median: float
    interquartile_mean: float
    """The mean without the lowest quarter and the highest quarter of the returns."""
    minimum: float
    maximum: float


def return_statistics(returns: Sequence[float]) -> ReturnStatistics:
    """Return the statistics of one or more returns, all finite.

    For normal returns, the confidence interval contains the mean over all the agent's episodes in exactly 95 of 100
    evaluations. For skewed returns it is too narrow: with 20 exponential returns it does so in 92 (a percentile
    bootstrap: in 90). If all returns are equal, its width is 0. Interquartile mean: Agarwal et al. 2021,
    https://arxiv.org/abs/2108.13264.
    """
    values = sorted(returns)
    count = len(values)
    mean = math.fsum(values) / count
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / count)
    margin = student(count - 1) * std / math.sqrt(count - 1) if count > 1 else math.inf
    cut = int(TRIMMED * count)
    middle = values[cut : count - cut]
    return ReturnStatistics(
        episodes=count,
        mean=mean,
        low=mean - margin if count > 1 else None,
        high=mean + margin if count > 1 else None,
        std=std,
        median=(values[(count - 1) // 2] + values[count // 2]) / 2,
        interquartile_mean=math.fsum(middle) / len(middle),
        minimum=values[0],
        maximum=values[-1],
    )


def student(freedom: int) -> float:
    """Return the 0.975 quantile of Student's t with `freedom` degrees of freedom, to 0.001.

    Above three degrees it is computed by expansion 26.7.5 of Abramowitz and Stegun 1964.
    """
    if freedom < len(_FEW):
        return _FEW[freedom]
    z, n = Z, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )
