"""The load guard: under every policy, no actor is added to a learner that cannot keep up with those it has."""

from __future__ import annotations

from common.settings.sections import Scaling
from learner.scaling.measure import Decision, Measurement, count

OLDEST = 1.5
"""In rollouts. By nature a gradient is at most one old, and at two the original experiment collapsed."""


def overload(section: Scaling, measurement: Measurement) -> str | None:
    """What says that the learner has too much to do, with its numbers; None: it has not."""
    if measurement.learner_busy > section.busy_limit:
        return f"learner busy {measurement.learner_busy:.0%} > {section.busy_limit:.0%}"
    age = measurement.age_in_rollouts
    if age is not None and age > OLDEST:
        return f"gradients {age:.1f} > {OLDEST:g} rollouts old (lag {measurement.lag_mean:.1f})"
    return None


def guard(section: Scaling, measurement: Measurement, proposed: Decision) -> Decision:
    """`proposed`, unless it adds actors while the learner is overloaded: then the number stays and `why` says so."""
    if proposed.wanted <= measurement.wanted:
        return proposed
    trouble = overload(section, measurement)
    if trouble is None:
        return proposed
    return Decision(measurement.wanted, f"held at {count(measurement.wanted)}: {trouble}; else {proposed.why}")
