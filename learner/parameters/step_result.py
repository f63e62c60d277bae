"""What came of one optimizer step."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StepResult:
    statistics: Mapping[str, float] = field(default_factory=dict)
    """Of the loss, where the learner computed it."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Why, by the number of the contribution among those added since the last step, counted from 0."""
    to_blame: bool = True
    """Whether those left out are at fault; false where all of several are, and the weights are more likely."""


NOTHING = StepResult()
"""Nothing to tell."""
