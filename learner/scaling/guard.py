"""The load guard: under every policy, no actor is added to a learner that cannot keep up with those it has."""

from __future__ import annotations

from common.settings.sections import Scaling
from learner.scaling.measure import Decision, Measurement, count

OLDEST = 1.5
"""In rollouts. By nature a gradient is at most one old, and at two the original experiment collapsed."""


def overload(section: Scaling, measurement: Measurement) -> str | None:
    """Why the learner has too much to do, with the numbers; None: it has not."""
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
    reason = overload(section, measurement)
    if reason is None:
        return proposed
    why = f"held at {count(measurement.wanted)}: {reason}; else {proposed.why}"
    return Decision(measurement.wanted, why, held=True)
