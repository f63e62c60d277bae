"""How stale gradients are treated. Lag: number of optimizer steps since the version of the weights that acted."""

import math
from dataclasses import dataclass
from typing import Literal

from common.settings.exchanges import staleness_policy
from common.settings.sections import Settings

SMALLEST_LIMIT = 4
"""Smallest limit of the relative rule, so that one or two actors are not refused for the lag that a single coalesced
step or a slow broadcast causes."""


@dataclass(frozen=True)
class StalenessRule:
    """How a step shrinks with the lag, and above which lag a gradient is not applied."""

    scale: Literal["inverse-sqrt", "inverse", "none"] = "none"
    """Factor on the step: 1/sqrt(1+lag), 1/(1+lag), or 1."""
    refuse_factor: float = 0.0
    """A lag above this times the number of actors, and above SMALLEST_LIMIT, is stale; 0: no such limit."""
    drop_above: int | None = None
    """A lag above this is stale; None: no such limit."""

    def weight(self, lag: int) -> float:
        """Return the factor on the step of a gradient with this `lag`, which is 0 or more."""
        match self.scale:
            case "none":
                return 1.0
            case "inverse":
                return 1.0 / (1.0 + lag)
            case "inverse-sqrt":
                return 1.0 / math.sqrt(1.0 + lag)

    def limit(self, actors: int, reach: int | None = None) -> int | None:
        """Return the largest lag that is still applied with this many actors in the run; None: every lag is.

        `reach`: the largest lag that can be compensated; None: gradients are not compensated.
        """
        relative = max(SMALLEST_LIMIT, int(self.refuse_factor * actors)) if self.refuse_factor else None
        limit = relative
        for other in (self.drop_above, reach):
            if other is not None and (limit is None or other < limit):
                limit = other
        return limit


def staleness_rule(settings: Settings) -> StalenessRule:
    section, policy = settings.staleness, staleness_policy(settings)
    if policy == "synchronous":
        return StalenessRule(drop_above=0)
    scale = section.scale if policy == "scale" else "none"
    return StalenessRule(scale, section.refuse_factor, section.drop_above)
