"""The measurement that a scaling policy decides by, and its decision."""

from dataclasses import dataclass
from typing import Literal

from common.settings.sections import Scaling
from learner.staleness import SMALLEST_LIMIT

OLDEST = 1.5
"""Age of gradients, in rollouts, above which the learner is overloaded. By nature a gradient is at most one rollout
old; at two, the original experiment collapsed."""
Hold = Literal["", "load", "gain"]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One look at the run.

    Rates, lag and busy time cover the same seconds, in which there were as many actors as now; refused gradients count,
    too.
    """

    actors: int
    """Number of actors that play."""
    by_hand: int = 0
    """Number of these that no launcher runs."""
    launchers: int = 1
    wanted: int
    seconds: float
    """Seconds that were measured; 0: too few yet, and the figures from `learner_busy` on mean nothing."""
    episodes_since: int
    """Episodes finished since actors were last added."""
    mean_episode_length: float | None
    """Mean length of the last episodes in steps; None before the first."""
    mean_episode_seconds: float | None
    first_length: float | None = None
    """Mean length of the run's first episodes in steps; None until there were enough."""
    crossings: int = 0
    """Additions of the linear form so far."""
    learner_busy: float
    """Fraction of the time in which the learner was at work, 0 to 1."""
    lag_mean: float
    """Mean lag over the rollouts, in optimizer steps."""
    rollouts_per_second: float
    """Rollouts per second; more than gradients if actors add several up before they send."""
    steps_per_second: float
    """Optimizer steps per second; fewer than gradients if several are added into one step."""
    frames_per_second: tuple[float, ...] = ()
    """Frames per second in successive parts of the measured time."""

    @property
    def site(self) -> tuple[int, int]:
        """What the policy does not control. If it changes, earlier throughputs are no longer comparable."""
        return self.launchers, self.by_hand

    @property
    def age_in_rollouts(self) -> float | None:
        """Age of a gradient's weights when it is taken in, counted in rollouts of an actor; None: not known.

        A gradient is `lag_mean / steps_per_second` seconds old, and an actor plays a rollout every
        `actors / rollouts_per_second` seconds. An actor that fetches weights only before its rollout comes out at 1.
        A lag so small that it is never refused (one missed broadcast, for example) tells nothing.
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
    """What held an addition back: the learner's load, or that the last addition brought no frames; empty: nothing."""
    crossed: int = 0
    """Number of crossings that this addition uses (episode-duration, linear)."""


def overload(section: Scaling, measurement: Measurement) -> str | None:
    """Return why the learner has too much to do, with the numbers; None: it has not, or is not measured yet."""
    if not measurement.seconds:
        return None
    if measurement.learner_busy > section.busy_limit:
        return f"learner busy {measurement.learner_busy:.0%} > {section.busy_limit:.0%}"
    age = measurement.age_in_rollouts
    if age is not None and age > OLDEST:
        return f"gradients {age:.1f} > {OLDEST:g} rollouts old (lag {measurement.lag_mean:.1f})"
    return None


def waiting(measurement: Measurement) -> str | None:
    """Return what is waited for until the figures are those of the wanted fleet; None: they are."""
    expected = measurement.wanted + measurement.by_hand
    if measurement.actors != expected:
        return f"waiting for the last change, {measurement.actors} of {count(expected)} here"
    if not measurement.seconds:
        return f"measuring {count(measurement.actors)}"
    return None


def count(actors: int) -> str:
    """Return `1 actor`, `2 actors` and so on."""
    return f"{actors} actor" if actors == 1 else f"{actors} actors"


def change(before: int, after: int) -> str:
    """Return `6 -> 7 actors`, or only the number if it stays."""
    return f"{before} -> {count(after)}" if before != after else count(after)
