"""Finds what is wrong with a training before anything of it is started. Without torch, which takes seconds to load."""

import contextlib

import msgspec

from common.errors import A3cdError
from common.rl.environments.make import make
from common.run.folder import RunFolder
from common.settings.sections import Settings
from learner.record.run_lock import fitted, require_empty


def check(settings: Settings, folder: RunFolder, resume: bool) -> None:
    """Raises ConfigurationError for what the learner would refuse: folder, environment, settings for another run.

    Whether network and algorithm fit the environment, and whether there is such a device, is left to the learner.
    """
    with contextlib.suppress(OSError):  # the learner says what is wrong with the disk
        if resume:
            fitted(settings, folder)
        else:
            require_empty(folder)
    make(settings.environment, num_envs=1, seed=settings.seed).close()


def why_over(settings: Settings, folder: RunFolder) -> str:
    """Why the run in the folder would end as soon as it is resumed; empty if it would go on, or cannot be read."""
    from learner import limits  # only a resumed run waits until these are loaded
    from learner.run_stats import Counters, RunStats

    try:
        newest = folder.newest_read({})
        if newest is None:
            return ""
        counters = msgspec.convert(newest.state.get("counters"), Counters)
    except (A3cdError, OSError, msgspec.ValidationError):
        return ""
    stats = RunStats(counters, settings, 0.0, newest.score)
    end = limits.ending(stats, 0.0, settings.limits)
    return end[1] if end is not None else ""
