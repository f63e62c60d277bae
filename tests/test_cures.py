"""The policies on simulated fleets that change, beside the rule that once ran away."""

from __future__ import annotations

import pytest

from benchmarks.cures import FIRST, FITTING, course
from simulation.settings import Incident

CHANGES = [
    Incident(at=20.0, kind="crash", who="attic"),
    Incident(at=30.0, kind="partition", who="attic"),
    Incident(at=55.0, kind="heal", who="attic"),
]


def test_load_as_it_was_ran_away() -> None:
    """So the fleet is one that shows the fault."""
    numbers = course(40, old=True, incidents=[])
    assert numbers[0] == FIRST
    assert numbers[-1] == 2


@pytest.mark.parametrize("incidents", [[], CHANGES], ids=["steady", "changing"])
def test_load_stays_near_what_fits(incidents: list[Incident]) -> None:
    numbers = course(80, old=False, incidents=incidents)
    assert numbers[0] == FIRST
    assert min(numbers) >= 8
    assert max(numbers[10:]) <= FITTING
    assert max(numbers[-20:]) - min(numbers[-20:]) <= 2
    assert numbers[-1] >= 11
