"""How long to wait before trying again what fails: twice as long each time."""

from __future__ import annotations

_LONGEST_SECONDS = 30.0
_DOUBLINGS = 16
"""More make no difference, and would overflow in the end."""


def backoff(failures: int, first: float = 1.0) -> float:
    """Seconds to wait after so many failures in a row: `first`, 2, 4, 8, ... times that, at most 30."""
    return min(first * 2.0 ** min(failures - 1, _DOUBLINGS), _LONGEST_SECONDS)
