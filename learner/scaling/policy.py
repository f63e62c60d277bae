"""The scaling decision: that of the settings' policy, within its bounds, unless an addition does harm or no good."""

from common.settings.sections import Scaling
from learner.scaling import episode_duration, load
from learner.scaling.bounds import Bounds
from learner.scaling.experience import Experience
from learner.scaling.measure import Decision, Measurement, change, count, waiting


def start(section: Scaling) -> Decision:
    """Return the decision that a run begins with, before anything is measured."""
    begins = "fixed" if section.policy == "fixed" else "from the minimum"
    return Decision(section.minimum, f"{begins}: {count(section.minimum)}")


class Scaler:
    """Decides every `interval_seconds`; often the number stays as it is.

    Under every policy, no actor is added while the learner cannot keep up with the present ones, nor after an addition
    that brought no frames, nor before both are known for the present fleet.
    """

    def __init__(self, section: Scaling, bounds: Bounds | None = None) -> None:
        self._given = section
        self.bound(bounds)

    def bound(self, bounds: Bounds | None) -> None:
        """Set the bounds from now on; None: those of the settings. The experience so far is forgotten."""
        self._bounds = bounds
        self._section = self._given if bounds is None else bounds.put_into(self._given)
        self._experience = Experience(self._section)

    def decide(self, now: float, measurement: Measurement) -> Decision:
        decision = self._decide(now, measurement)
        return decision if self._bounds is None else self._bounds.decision(decision)

    def _decide(self, now: float, measurement: Measurement) -> Decision:
        section, wanted = self._section, measurement.wanted
        if section.policy == "fixed":
            return start(section)
        nearest = min(max(wanted, section.minimum), section.maximum)
        if wanted != nearest:  # a run resumed with other bounds goes to them first
            return Decision(nearest, f"bounds {section.minimum} to {section.maximum}: {change(wanted, nearest)}")
        if waiting(measurement) is None:
            self._experience.look(now, measurement)
        if section.policy == "load":
            proposed = load.propose(section, now, measurement, self._experience)
        else:
            proposed = episode_duration.propose(section, measurement)
        more = proposed.wanted > wanted
        return self._held(measurement, proposed) if more and wanted else proposed

    def _held(self, measurement: Measurement, proposed: Decision) -> Decision:
        """Return the proposed addition, or a decision that holds it back, and why."""
        wanted, limit = measurement.wanted, self._experience.limit
        if (reason := self._experience.overload(measurement)) is not None:
            return Decision(wanted, f"held at {count(wanted)}: {reason}; else {proposed.why}", "load")
        if (why := waiting(measurement) or self._experience.pending(measurement)) is not None:
            return Decision(wanted, f"{why}; then {proposed.why}")
        if limit is not None and limit.most <= wanted:
            return Decision(wanted, f"held at {count(wanted)}: {limit.why}; else {proposed.why}", "gain")
        return proposed
