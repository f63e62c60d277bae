"""What ends a run: its goal, or its limits of frames, episodes and seconds."""

from common.settings.sections import Limits
from learner.effects import Ending
from learner.run_stats import RunStats


def ending(stats: RunStats, now: float, limits: Limits) -> tuple[Ending, str] | None:
    """Return how and why the run ends, the goal first; None while it goes on. A run without a frame has failed."""
    goal, mean, evaluated = limits.until_return, stats.score, stats.counters.best_evaluation
    if goal is not None and limits.until_return_of == "evaluation":
        if evaluated is not None and evaluated.mean >= goal:
            return "reached", f"evaluation of version {evaluated.version}: {evaluated} reached {goal:g}"
    elif goal is not None and mean is not None and mean >= goal:
        return "reached", f"mean return {mean:.1f} over {limits.window} episodes reached {goal:g}"
    for name, value, limit in (
        ("frames", stats.counters.frames, limits.frames),
        ("episodes", stats.counters.episodes, limits.episodes),
        ("seconds", stats.seconds(now), limits.seconds),
    ):
        if limit and value >= limit:
            if not stats.counters.frames:
                return "failed", f"{value:,.0f} of {limit:,.0f} {name}, in which no actor played a frame"
            return "finished", f"{value:,.0f} of {limit:,.0f} {name}"
    return None
