"""The number of examples for a Hypothesis test that sets its own number."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
"""Hypothesis's default number of examples, with which the profile's number is compared."""


def examples(count: int) -> int:
    """Returns `count`, scaled by the ratio of the profile's number of examples to the usual one."""
    return max(1, count * settings().max_examples // USUAL)
