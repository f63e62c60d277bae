"""Finds thresholds of episode-duration that certainly no episode can exceed."""

from common.settings.sections import Scaling
from learner.scaling.episode_duration import rule

MARGIN = 2.0
"""How many times as long steps on another host may last as those that were measured."""


def unreachable(section: Scaling, longest: int, *, first_length: float | None, step_seconds: float) -> str | None:
    """Return which thresholds cannot be exceeded, why, and what to do; None: all can, or it is not known.

    Args:
        longest: most steps of an episode; 0: not known.
        first_length: mean length of the run's first episodes in steps; None: not known, but at least one.
        step_seconds: duration of a step of the batch of environments; 0: not measured.
    """
    if section.policy != "episode-duration" or section.maximum <= section.minimum or not longest:
        return None
    bounds = [rule(section).first] if section.form == "linear" else sorted(rule(section).thresholds)
    name = f"scaling.{'first' if section.form == 'linear' else 'thresholds'}_{section.unit}"
    if section.unit == "seconds":
        if not step_seconds:
            return None
        most, lasts = longest * step_seconds, f"at most {longest} steps of {1e3 * step_seconds:.2g} ms each"
        beyond = [bound for bound in bounds if bound > MARGIN * most]
        cure = 'a lower value, or scaling.unit = "relative"'
    else:
        first = first_length or 1.0
        beyond = [bound for bound in bounds if bound * first >= longest]
        lasts = f"at most {longest} steps" + (f", the run's first ones {first:.0f}" if first_length else "")
        cure = 'a lower value, or scaling.policy = "load"'
    if not beyond:
        return None
    values = ", ".join(f"{bound:g}" for bound in beyond)
    so = "no actor is ever added" if len(beyond) == len(bounds) else "what it would add is never added"
    return f"{name} = {values} is never passed: an episode has {lasts}; {so}. Use {cure}"
