"""As many actors as the settings say, from beginning to end."""

from __future__ import annotations

from common.settings.sections import Scaling
from learner.scaling.measure import Decision, count


def propose(section: Scaling) -> Decision:
    return Decision(section.minimum, f"fixed: {count(section.minimum)}")
