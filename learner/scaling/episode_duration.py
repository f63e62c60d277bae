"""The policy episode-duration: more actors as the agent survives longer, as the original experiment did by hand.

Short episodes come from an agent that knows little and changes fast; many actors then mostly send stale gradients. Long
episodes need more actors to yield as many episodes per minute. Actors are added, never taken away.
"""

from dataclasses import dataclass

from common.settings.sections import Scaling
from learner.scaling.measure import Decision, Measurement, change, count


@dataclass(frozen=True)
class Rule:
    """The settings for one unit: multiples of the first episodes' mean length, or seconds."""

    thresholds: list[float]
    first: float
    every: float


def rule(section: Scaling) -> Rule:
    if section.unit == "seconds":
        return Rule(section.thresholds_seconds, section.first_seconds, section.every_seconds)
    return Rule(section.thresholds_relative, section.first_relative, section.every_relative)


def lowest(section: Scaling) -> float:
    """Return the duration that the mean episode must exceed for the first addition."""
    one = rule(section)
    return one.first if section.form == "linear" else min(one.thresholds)


def propose(section: Scaling, measurement: Measurement) -> Decision:
    """Propose the addition that the mean episode calls for, if `section.episodes_between` have ended since the last."""
    wanted = measurement.wanted
    value, lasts, unit = _duration(section, measurement)
    if value is None:
        return Decision(wanted, f"{lasts}: {count(wanted)}")
    more, bound = addition(section, value, measurement.crossings)
    if more == 0:
        return Decision(wanted, f"{lasts}, none is added up to {bound:g}{unit}: {count(wanted)}")
    if wanted >= section.maximum:
        return Decision(wanted, f"{lasts} > {bound:g}{unit}, at the maximum: {count(wanted)}")
    since = f"{lasts} > {bound:g}{unit}, {measurement.episodes_since} episodes since the last addition"
    if measurement.episodes_since < section.episodes_between:
        return Decision(wanted, f"{since}, {section.episodes_between} are to pass: {count(wanted)}")
    more_wanted = min(wanted + more, section.maximum)
    crossed = 1 if section.form == "linear" else 0
    return Decision(more_wanted, f"{since}: {change(wanted, more_wanted)}", crossed=crossed)


def addition(section: Scaling, value: float, crossings: int = 0) -> tuple[int, float]:
    """Return how many actors a mean episode of `value`, in the section's unit, adds, and the bound that decides it.

    steps: the addition of the highest threshold that is exceeded (over 20 / 40 / 60 s: 1 / 2 / 3).
    linear: 1 above `first`, and 1 more each time it has grown by another `every`; `crossings` have been used already.
    If no actor is added, the bound is the next one, which was not exceeded.
    """
    one = rule(section)
    if section.form == "linear":
        bound = one.first + crossings * one.every
        return int(value > bound), bound
    steps = sorted(zip(one.thresholds, section.additions, strict=True))
    crossed = [(more, threshold) for threshold, more in steps if value > threshold]
    return crossed[-1] if crossed else (0, steps[0][0])


def _duration(section: Scaling, measurement: Measurement) -> tuple[float | None, str, str]:
    """Return the mean episode in the section's unit, the same in words, and the unit; None: not known yet, and why."""
    seconds, length, first = measurement.mean_episode_seconds, measurement.mean_episode_length, measurement.first_length
    if seconds is None or length is None:
        return None, "no episode has ended yet", ""
    if section.unit == "seconds":
        return seconds, f"mean episode {seconds:.1f} s", " s"
    if not first:
        return None, f"mean episode {length:.0f} steps, measuring the first ones", ""
    return length / first, f"mean episode {length / first:.1f} x the first ones' {first:.0f} steps", " x"
