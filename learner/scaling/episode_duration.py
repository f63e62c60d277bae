"""More actors as the agent survives longer: what the experiment this grew out of did by hand.

Short episodes come from an agent that knows little and changes fast, and many actors then mostly send stale gradients;
long ones need more actors to yield as many episodes per minute. Actors are added, never taken away.
"""

from common.settings.sections import Scaling
from learner.scaling.measure import Decision, Measurement, change, count


def propose(section: Scaling, measurement: Measurement) -> Decision:
    """As many more as the mean episode calls for, `section.episodes_between` episodes or more after the last."""
    wanted, seconds = measurement.wanted, measurement.mean_episode_seconds
    if seconds is None:
        return Decision(wanted, f"no episode has ended yet: {count(wanted)}")
    more, bound = addition(section, seconds)
    lasts = f"mean episode {seconds:.1f} s"
    if more == 0:
        return Decision(wanted, f"{lasts}, none is added up to {bound:g} s: {count(wanted)}")
    if wanted >= section.maximum:
        return Decision(wanted, f"{lasts} > {bound:g} s, at the maximum: {count(wanted)}")
    since = f"{lasts} > {bound:g} s, {measurement.episodes_since} episodes since the last addition"
    if measurement.episodes_since < section.episodes_between:
        return Decision(wanted, f"{since}, {section.episodes_between} are to pass: {count(wanted)}")
    more_wanted = min(wanted + more, section.maximum)
    return Decision(more_wanted, f"{since}: {change(wanted, more_wanted)}")


def addition(section: Scaling, seconds: float) -> tuple[int, float]:
    """How many actors a mean episode of `seconds` adds at a time, and the bound in seconds that says so.

    steps: the addition of the highest threshold that is exceeded (over 20 / 40 / 60 s: 1 / 2 / 3).
    linear: 1 over `first_seconds`, and 1 more for every further `every_seconds` (over 20 s: 1, over 30 s: 2).
    With 0 the bound is the lowest, the one that was not exceeded.
    """
    if section.form == "linear":
        if seconds <= section.first_seconds:
            return 0, section.first_seconds
        further = int((seconds - section.first_seconds) / section.every_seconds)
        return 1 + further, section.first_seconds + further * section.every_seconds
    steps = sorted(zip(section.thresholds_seconds, section.additions, strict=True))
    crossed = [(more, threshold) for threshold, more in steps if seconds > threshold]
    return crossed[-1] if crossed else (0, steps[0][0])
