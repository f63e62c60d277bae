"""Finds what is wrong with a training before anything of it is started. Without torch, which takes seconds to load."""

import contextlib
from typing import Any

import msgspec

from common.errors import A3cdError
from common.rl.environments.make import make
from common.run.folder import RunFolder
from common.settings.sections import Limits, Settings
from learner.record.run_lock import require_empty


def check(settings: Settings, folder: RunFolder, resume: bool) -> None:
    """Raises ConfigurationError for what the learner would refuse: folder, environment.

    Whether network and algorithm fit the environment, and whether there is such a device, is left to the learner.
    """
    if not resume:
        with contextlib.suppress(OSError):  # the learner says what is wrong with the disk
            require_empty(folder)
    make(settings.environment, num_envs=1, seed=settings.seed).close()


def why_over(settings: Settings, folder: RunFolder) -> str:
    """Why the run in the folder would end as soon as it is resumed; empty if it would go on, or cannot be read."""
    from learner import limits  # only a resumed run waits until these are loaded
    from learner.run_stats import Counters, RunStats

    if reached := _reached(settings.limits, folder):
        return reached
    try:
        newest = folder.newest_read({})
        counters = msgspec.convert(newest and newest.state.get("counters"), Counters)
    except (A3cdError, OSError, msgspec.ValidationError):
        return ""
    stats = RunStats(counters, settings, 0.0)
    end = limits.ending(stats, 0.0, settings.limits)
    return end[1] if end is not None else ""


def _reached(goal: Limits, folder: RunFolder) -> str:
    """That the run ended at this goal; empty if not. The window that a checkpoint keeps may give a lower mean again."""
    summary: dict[str, Any] = {}
    with contextlib.suppress(A3cdError):
        summary = folder.summary()
    mean, wanted = summary.get("mean_return"), goal.until_return
    if summary.get("state") != "reached" or goal.until_return_of != "training" or mean is None or wanted is None:
        return ""
    return f"mean return {mean:.1f} reached {wanted:g}" if mean >= wanted else ""
