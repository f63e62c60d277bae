"""How long to wait before trying again what fails."""

from __future__ import annotations


def backoff(failures: int, first: float = 1.0) -> float:
    """Seconds to wait after so many failures in a row: `first`, 2, 4, 8, ... times that, at most 30."""
    return min(first * 2.0 ** min(failures - 1, 16), 30.0)  # 16: a larger exponent would overflow in the end
