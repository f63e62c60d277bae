"""The scaler: asks the policy of the settings, and gives its answer to the load guard."""

from __future__ import annotations

from typing import assert_never

from common.settings.sections import Scaling
from learner.scaling import episode_duration, fixed, load
from learner.scaling.guard import guard
from learner.scaling.measure import Decision, Measurement, change, count


class Scaler:
    """Keeps what a pure policy cannot: the episode at which actors were last added."""

    def __init__(self, section: Scaling, last_addition: int = 0) -> None:
        """`last_addition`: total episodes when actors were last added, from an earlier epoch of the run."""
        self.section = section
        self.last_addition = last_addition

    def start(self) -> Decision:
        """What a run begins with, before anything is measured."""
        if self.section.policy == "fixed":
            return fixed.propose(self.section)
        return Decision(self.section.minimum, f"from the minimum: {count(self.section.minimum)}")

    def decide(self, measurement: Measurement) -> Decision:
        """The decision for now, often to leave the number as it is; asked every `interval_seconds`."""
        decision = guard(self.section, measurement, self._within_bounds(measurement))
        if decision.wanted > measurement.wanted:
            self.last_addition = measurement.episodes
        return decision

    def _within_bounds(self, measurement: Measurement) -> Decision:
        """A run resumed with other bounds goes to them first."""
        lowest, highest = self.section.minimum, self.section.maximum
        wanted = measurement.wanted
        if self.section.policy != "fixed" and not lowest <= wanted <= highest:
            nearest = min(max(wanted, lowest), highest)
            return Decision(nearest, f"bounds {lowest} to {highest}: {change(wanted, nearest)}")
        return self._propose(measurement)

    def _propose(self, measurement: Measurement) -> Decision:
        match self.section.policy:
            case "fixed":
                return fixed.propose(self.section)
            case "episode-duration":
                return episode_duration.propose(self.section, measurement, measurement.episodes - self.last_addition)
            case "load":
                return load.propose(self.section, measurement)
            case other:
                assert_never(other)
