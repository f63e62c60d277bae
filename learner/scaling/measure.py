"""What a policy is told, and what it answers."""

from dataclasses import dataclass
from typing import Literal

from common.settings.sections import Scaling
from learner.staleness import SMALLEST_LIMIT

OLDEST = 1.5
"""In rollouts. By nature a gradient is at most one old, and at two the original experiment collapsed."""
Hold = Literal["", "load", "gain"]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One look at the run.

    Rates, lag and busy time are of the same seconds, in which there were as many actors as now; gradients that were
    refused count too.
    """

    actors: int
    """That play."""
    by_hand: int = 0
    """Of them, those that no launcher runs."""
    launchers: int = 1
    wanted: int
    seconds: float
    """Over which was measured; 0: too short yet, and the figures from `learner_busy` on mean nothing."""
    episodes_since: int
    """Episodes finished since actors were last added."""
    mean_episode_length: float | None
    """In steps, of the last episodes; None before the first."""
    mean_episode_seconds: float | None
    first_length: float | None = None
    """In steps, of the run's first episodes; None until there were enough."""
    crossings: int = 0
    """Additions of the linear form so far."""
    learner_busy: float
    """Fraction of the time the learner was at work, 0 to 1."""
    lag_mean: float
    """In optimizer steps, mean over the rollouts."""
    rollouts_per_second: float
    """More than gradients where actors add several up before they send."""
    steps_per_second: float
    """Of the optimizer; fewer than gradients where several are added into one step."""
    frames_per_second: tuple[float, ...] = ()
    """In successive parts of the seconds."""

    @property
    def site(self) -> tuple[int, int]:
        """What the policy has no hand in; if it changes, what the actors brought so far tells nothing any more."""
        return self.launchers, self.by_hand

    @property
    def age_in_rollouts(self) -> float | None:
        """How old a gradient's weights are when it is taken in, counted in actors' rounds; None: cannot be told.

        A gradient is `lag_mean / steps_per_second` seconds old, and an actor plays a rollout every
        `actors / rollouts_per_second` seconds. An actor that fetches weights only before its rollout comes out at 1.
        A lag that is never refused (one broadcast missed, say) tells nothing.
        """
        if self.lag_mean <= SMALLEST_LIMIT or self.actors == 0 or self.steps_per_second <= 0.0:
            return None
        return self.lag_mean * self.rollouts_per_second / (self.actors * self.steps_per_second)


@dataclass(frozen=True)
class Decision:
    """How many actors the learner wants from now on, and why, with the numbers that led to it."""

    wanted: int
    why: str
    held: Hold = ""
    """What held an addition back: the learner's load, or that the last one brought no frames."""
    crossed: int = 0
    """Crossings that this addition is for (episode-duration, linear)."""


def overload(section: Scaling, measurement: Measurement) -> str | None:
    """Why the learner has too much to do, with the numbers; None: it has not, or is not measured yet."""
    if not measurement.seconds:
        return None
    if measurement.learner_busy > section.busy_limit:
        return f"learner busy {measurement.learner_busy:.0%} > {section.busy_limit:.0%}"
    age = measurement.age_in_rollouts
    if age is not None and age > OLDEST:
        return f"gradients {age:.1f} > {OLDEST:g} rollouts old (lag {measurement.lag_mean:.1f})"
    return None


def waiting(measurement: Measurement) -> str | None:
    """What is waited for before figures tell of the fleet that is wanted; None: they do."""
    expected = measurement.wanted + measurement.by_hand
    if measurement.actors != expected:
        return f"waiting for the last change, {measurement.actors} of {count(expected)} here"
    if not measurement.seconds:
        return f"measuring {count(measurement.actors)}"
    return None


def count(actors: int) -> str:
    """`1 actor`, `2 actors`."""
    return f"{actors} actor" if actors == 1 else f"{actors} actors"


def change(before: int, after: int) -> str:
    """`6 -> 7 actors`, or what stays."""
    return f"{before} -> {count(after)}" if before != after else count(after)
