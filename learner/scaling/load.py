"""The policy load: as many actors as the learner can serve, more while there is room, fewer when it is overloaded.

Busy time grows about in proportion to the actors, so the number that fits is estimated from the present one. The
estimate aims below the limit: actors are removed only above the limit, and added only while busy time stays clearly
below it, so that the number comes to rest. The age of gradients follows no such rule: there the number is found between
the most actors that were not too many and the fewest that were.
"""

import math

from common.settings.sections import Scaling
from learner.scaling.experience import Experience
from learner.scaling.measure import Decision, Measurement, change, count, waiting

TARGET = 0.85
"""Share of the busy limit that is the target; the gap to 1 is the hysteresis."""
YOUNG = 1.2
"""Age in rollouts below which gradients must be for actors to be added."""
FEWER_WHEN_OLD = 0.75
"""Share of the actors kept when gradients are too old although the learner is not too busy."""
GROWTH = 0.5
"""Largest addition at once, as a share of the actors (but at least one): the estimate is only good nearby."""
SAMPLES = 3
"""Samples of an overloaded learner needed before actors are removed: a checkpoint keeps it busy for a moment, too."""


def propose(section: Scaling, now: float, measurement: Measurement, experience: Experience) -> Decision:
    """Propose more, fewer or as many actors; as many while the last change is under way or nothing was measured."""
    wanted, actors = measurement.wanted, measurement.actors
    if wanted < 1:
        return Decision(1, f"the first, to measure with: {change(wanted, 1)}")
    reason = experience.overload(measurement)
    if reason is not None and actors - measurement.by_hand <= wanted:
        return _fewer(section, now, measurement, experience, reason)
    if (why := waiting(measurement)) is not None:
        return Decision(wanted, why)
    limit, busy = experience.limit, measurement.learner_busy
    if limit is not None and limit.most <= wanted:
        return Decision(limit.most, f"{limit.why}: {change(wanted, limit.most)}")
    target = TARGET * section.busy_limit
    age = measurement.age_in_rollouts if experience.age_tells else None
    if age is not None and age > YOUNG:
        return Decision(wanted, f"gradients {age:.1f} rollouts old, none is added above {YOUNG:g}: {count(wanted)}")
    room = math.floor(actors * target / busy) - measurement.by_hand if busy > 0.0 else section.maximum
    step = max(1, int(actors * GROWTH))
    if limit is not None:
        step = min(step, (limit.most - wanted + 1) // 2)
    elif experience.careful:
        step = 1
    more = min(room, wanted + step, section.maximum)
    if more > wanted:
        return Decision(more, f"learner busy {busy:.0%} leaves room below {target:.0%}: {change(wanted, more)}")
    return Decision(wanted, f"learner busy {busy:.0%}, limit {section.busy_limit:.0%}: {count(wanted)}")


def _fewer(section: Scaling, now: float, measurement: Measurement, experience: Experience, reason: str) -> Decision:
    wanted, actors, busy = measurement.wanted, measurement.actors, measurement.learner_busy
    if len(measurement.frames_per_second) < SAMPLES:
        return Decision(wanted, f"{reason}, for a moment yet: {count(wanted)}")
    kept = TARGET * section.busy_limit / busy if busy > section.busy_limit else FEWER_WHEN_OLD
    here = actors - measurement.by_hand
    fewer = min(math.floor(actors * kept) - measurement.by_hand, here - 1)
    if fewer < experience.good < here:
        fewer = experience.good
    fewer = min(max(section.minimum, 1, fewer), wanted)
    if fewer < wanted:
        experience.too_many(now, measurement, reason)
    return Decision(fewer, f"{reason}: {change(wanted, fewer)}")
