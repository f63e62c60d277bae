"""How many examples a Hypothesis test with a number of its own takes."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
"""Hypothesis's own number, to which the profile's is compared."""


def examples(count: int) -> int:
    """`count`, as many times more or less as the profile has more or less examples than usual."""
    return max(1, count * settings().max_examples // USUAL)
