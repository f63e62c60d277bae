"""What the run has shown about the number of actors: which were not too many, and how many are of no use.

A limit holds for a while, longer each time it is confirmed. All of it is forgotten when launchers, or actors started by
hand, come or go.
"""

from dataclasses import dataclass

from common.settings.sections import Scaling
from learner.scaling.gain import Throughput, has_grown, throughput
from learner.scaling.measure import Measurement, count, overload

RETRY_SECONDS = 600.0
"""Seconds until more actors are tried again; doubled each time that they prove useless again."""
LONGEST_RETRY = 7200.0
PATIENCE = 15
"""Samples of the frames per second after which another addition is allowed though the use of the last is not clear."""
HALF = 0.5
NO_YOUNGER = 0.93
"""If HALF of the actors do not bring the age of gradients below this share of it, their number is not the cause."""


@dataclass(frozen=True)
class Limit:
    """A limit: no more actors than `most` are wanted, and why."""

    most: int
    why: str


class Experience:
    def __init__(self, section: Scaling) -> None:
        self._section = section
        self._forget(None)

    def _forget(self, site: tuple[int, int] | None) -> None:
        self.limit: Limit | None = None
        self.good = 0
        """Largest number of launchers' actors that was not too many; 0: none yet."""
        self.careful = False
        """Whether actors are added one at a time, since there were too many before."""
        self.age_tells = True
        """Whether fewer actors would make gradients younger."""
        self._site = site
        self._retry = RETRY_SECONDS
        self._again = False
        """Whether more actors are being tried again."""
        self._until = 0.0
        """Until when the limit holds."""
        self._before: Throughput | None = None
        """Throughput with which that of more actors is compared."""
        self._cut: tuple[int, float] | None = None
        """Number of actors and age of gradients when actors were first taken away because gradients were old."""

    def look(self, now: float, measurement: Measurement) -> None:
        """Learn from one measurement of the fleet, which must have the wanted number of actors."""
        if self._site is not None and measurement.site != self._site:
            self._forget(measurement.site)
        self._site = measurement.site
        if self.limit is not None and now >= self._until:
            self.limit, self._before, self._again = None, None, True
        after = throughput(measurement.actors, measurement.frames_per_second)
        if after is None:
            return
        here = measurement.actors - measurement.by_hand
        self._age(measurement)
        if self.overload(measurement) is None:
            self.good = max(self.good, here)
        elif here <= self.good:
            self.good = 0
        before = self._before
        if before is None or after.actors <= before.actors:
            self._before = after
        elif (grown := has_grown(before, after)) is not None:
            if grown:
                self._before = after
            else:
                of_use = here
                if self._section.policy == "load":  # as many as would play this if each played as much as before
                    enough = int(before.actors * max(1.0, after.mean / before.mean))
                    of_use = min(enough, after.actors - 1) - measurement.by_hand
                why = (
                    f"{count(after.actors)} play {after.mean:,.0f} frames/s, {before.actors} played {before.mean:,.0f}"
                )
                self._set(now, of_use, why)

    def overload(self, measurement: Measurement) -> str | None:
        """As `measure.overload`, but ignore the age of gradients if fewer actors did not change it."""
        reason = overload(self._section, measurement)
        old = measurement.learner_busy <= self._section.busy_limit
        return None if old and not self.age_tells else reason

    def pending(self, measurement: Measurement) -> str | None:
        """Return why it is too early for more actors: what the last ones bring is not clear yet. None: it is clear."""
        before, samples = self._before, len(measurement.frames_per_second)
        if before is None or measurement.actors <= before.actors or samples >= PATIENCE:
            return None
        return f"measuring what {count(measurement.actors)} bring, {before.actors} played {before.mean:,.0f} frames/s"

    def too_many(self, now: float, measurement: Measurement, reason: str) -> None:
        """Note that the policy takes actors away, and why."""
        here = measurement.actors - measurement.by_hand
        self._set(now, here - 1, f"{here} were too many: {reason}")
        self.careful = True
        age = measurement.age_in_rollouts
        if self._cut is None and age is not None and measurement.learner_busy <= self._section.busy_limit:
            self._cut = here, age

    def _set(self, now: float, most: int, why: str) -> None:
        if self._again:
            self._retry = min(2 * self._retry, LONGEST_RETRY)
        # At least one: the policy load always wants one to measure with, and would start and stop it by turns.
        self.limit, self._before, self._again = Limit(max(most, self._section.minimum, 1), why), None, False
        self._until = now + self._retry

    def _age(self, measurement: Measurement) -> None:
        """Find out whether taking actors away made gradients younger."""
        if self._cut is None:
            return
        here, (actors, before) = measurement.actors - measurement.by_hand, self._cut
        age = measurement.age_in_rollouts
        if age is None or overload(self._section, measurement) is None:
            self._cut = None
        elif here <= HALF * actors:
            self._cut = None
            if age > NO_YOUNGER * before:
                self.age_tells, self.careful, self.limit = False, False, None
