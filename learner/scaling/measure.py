"""What a policy is told, and what it answers."""

from dataclasses import dataclass

from common.settings.sections import Scaling
from learner.staleness import SMALLEST_LIMIT

OLDEST = 1.5
"""In rollouts. By nature a gradient is at most one old, and at two the original experiment collapsed."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One look at the run; rates are over the last seconds and count gradients that were refused too."""

    actors: int
    wanted: int
    episodes_since: int
    """Episodes finished since actors were last added."""
    mean_episode_seconds: float | None
    """Of the last episodes; None before the first."""
    learner_busy: float
    """Fraction of the time the learner was at work, 0 to 1."""
    lag_mean: float
    """In optimizer steps, of the last gradients."""
    gradients_per_second: float
    steps_per_second: float
    """Of the optimizer; fewer than gradients where several are added into one step."""

    @property
    def age_in_rollouts(self) -> float | None:
        """How old a gradient's weights are when it is taken in, counted in actors' rounds; None: cannot be told.

        A gradient is `lag_mean / steps_per_second` seconds old, and an actor sends one every
        `actors / gradients_per_second` seconds. An actor that fetches weights only before its rollout comes out at 1.
        A lag that is never refused (one broadcast missed, say) tells nothing.
        """
        if self.lag_mean <= SMALLEST_LIMIT or self.actors == 0 or self.steps_per_second <= 0.0:
            return None
        return self.lag_mean * self.gradients_per_second / (self.actors * self.steps_per_second)


@dataclass(frozen=True)
class Decision:
    """How many actors the learner wants from now on, and why, with the numbers that led to it."""

    wanted: int
    why: str
    held: bool = False
    """The load guard held an addition back."""


def overload(section: Scaling, measurement: Measurement) -> str | None:
    """Why the learner has too much to do, with the numbers; None: it has not."""
    if measurement.learner_busy > section.busy_limit:
        return f"learner busy {measurement.learner_busy:.0%} > {section.busy_limit:.0%}"
    age = measurement.age_in_rollouts
    if age is not None and age > OLDEST:
        return f"gradients {age:.1f} > {OLDEST:g} rollouts old (lag {measurement.lag_mean:.1f})"
    return None


def count(actors: int) -> str:
    """`1 actor`, `2 actors`."""
    return f"{actors} actor" if actors == 1 else f"{actors} actors"


def change(before: int, after: int) -> str:
    """`6 -> 7 actors`, or what stays."""
    return f"{before} -> {count(after)}" if before != after else count(after)
