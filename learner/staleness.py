"""What becomes of a gradient of older weights; its lag is the number of optimizer steps since those that acted.

Measured: with 40 actors the inverse root halves what staleness costs, and an unscaled queue can end learning.
"""

from __future__ import annotations

import math
from typing import Literal

SMALLEST_LIMIT = 4
"""One or two actors are not refused for the lag that a single coalesced step or a slow broadcast gives."""
ACTORS_PER_GRADIENT = 5
"""Coalescing: one more gradient per step for so many actors; a larger share starves learning of steps."""


def scale(kind: Literal["inverse-sqrt", "none"], lag: int) -> float:
    """Factor on the step of a gradient with this `lag` (0 or more): 1/sqrt(1+lag), or 1."""
    return 1.0 if kind == "none" else 1.0 / math.sqrt(1.0 + lag)


def limit(refuse_factor: float, actors: int) -> int | None:
    """Largest lag that is still applied with so many actors in the run; None (factor 0): every lag is."""
    if refuse_factor == 0.0:
        return None
    return max(SMALLEST_LIMIT, int(refuse_factor * actors))


def coalesce(actors: int, cap: int) -> int:
    """Most waiting gradients that one optimizer step adds up: clamp(actors / 5, 1, cap)."""
    return max(1, min(actors // ACTORS_PER_GRADIENT, cap))
