"""Sharing the wished number of actors among the launchers."""

from __future__ import annotations

from collections.abc import Sequence


def share(wanted: int, slots: Sequence[int]) -> list[int]:
    """How many actors each launcher runs: as even as their slots allow, the first ones get the rest.

    >>> share(5, [4, 4])
    [3, 2]
    >>> share(9, [2, 8])
    [2, 7]
    """
    orders = [0] * len(slots)
    while wanted > 0:
        free = [index for index, limit in enumerate(slots) if orders[index] < limit]
        if not free:
            break
        emptiest = min(free, key=lambda index: orders[index])
        orders[emptiest] += 1
        wanted -= 1
    return orders
