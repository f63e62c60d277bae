"""As many actors as the learner can serve: up while there is room, down when it is overloaded.

Busy time grows about in proportion to the actors, so the number that fits is estimated from the number there is. The
estimate aims below the limit: actors go only above it and come only while it stays clearly below, so the number rests.
"""

import math

from common.settings.sections import Scaling
from learner.scaling.measure import Decision, Measurement, change, count, overload

TARGET = 0.85
"""Part of the busy limit that is aimed at; the gap to 1 is the hysteresis."""
YOUNG = 1.0
"""In rollouts: actors are only added while gradients are younger."""
FEWER_WHEN_OLD = 0.75
"""Part of the actors kept when gradients are too old though the learner is not too busy."""
GROWTH = 0.5
"""At most this part of the actors is added at once, and at least one: the estimate is only good nearby."""


def propose(section: Scaling, measurement: Measurement) -> Decision:
    """More, fewer or as many; unchanged while the last change is under way or nothing was measured."""
    wanted, actors = measurement.wanted, measurement.actors
    if wanted < 1:
        return Decision(1, f"the first, to measure with: {change(wanted, 1)}")
    if actors != wanted:
        return Decision(wanted, f"waiting for the last change, {actors} of {count(wanted)} here")
    if measurement.gradients_per_second <= 0.0:
        return Decision(wanted, f"no gradients to measure by: {count(wanted)}")
    busy = measurement.learner_busy
    target = TARGET * section.busy_limit
    reason = overload(section, measurement)
    if reason is not None:
        kept = target / busy if busy > section.busy_limit else FEWER_WHEN_OLD
        fewer = max(section.minimum, 1, min(math.floor(actors * kept), actors - 1))
        return Decision(fewer, f"{reason}: {change(wanted, fewer)}")
    age = measurement.age_in_rollouts
    if age is not None and age > YOUNG:
        return Decision(wanted, f"gradients {age:.1f} rollouts old, none is added above {YOUNG:g}: {count(wanted)}")
    room = math.floor(actors * target / busy) if busy > 0.0 else section.maximum
    more = min(room, actors + max(1, int(actors * GROWTH)), section.maximum)
    if more > actors:
        return Decision(more, f"learner busy {busy:.0%} leaves room below {target:.0%}: {change(wanted, more)}")
    return Decision(wanted, f"learner busy {busy:.0%}, limit {section.busy_limit:.0%}: {count(wanted)}")
