"""The decision: that of the policy in the settings, within its bounds, unless the load guard holds it."""

from common.settings.sections import Scaling
from learner.scaling import episode_duration, load
from learner.scaling.measure import Decision, Measurement, change, count, overload


def start(section: Scaling) -> Decision:
    """What a run begins with, before anything is measured."""
    begins = "fixed" if section.policy == "fixed" else "from the minimum"
    return Decision(section.minimum, f"{begins}: {count(section.minimum)}")


def decide(section: Scaling, measurement: Measurement) -> Decision:
    """The decision for now, often to leave the number as it is; asked every `interval_seconds`.

    Under every policy, no actor is added to a learner that cannot keep up with those it has.
    """
    proposed = _propose(section, measurement)
    reason = overload(section, measurement)
    if reason is None or proposed.wanted <= measurement.wanted:
        return proposed
    why = f"held at {count(measurement.wanted)}: {reason}; else {proposed.why}"
    return Decision(measurement.wanted, why, held=True)


def _propose(section: Scaling, measurement: Measurement) -> Decision:
    if section.policy == "fixed":
        return start(section)
    wanted = measurement.wanted
    nearest = min(max(wanted, section.minimum), section.maximum)
    if wanted != nearest:  # a run resumed with other bounds goes to them first
        return Decision(nearest, f"bounds {section.minimum} to {section.maximum}: {change(wanted, nearest)}")
    if section.policy == "load":
        return load.propose(section, measurement)
    return episode_duration.propose(section, measurement)
