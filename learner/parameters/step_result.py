"""The result of one optimizer step."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StepResult:
    statistics: Mapping[str, float] = field(default_factory=dict)
    """Statistics of the loss, if the learner computed it."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Why contributions were left out, by their number among those added since the last step, counted from 0."""
    to_blame: bool = True
    """Whether the contributions left out are at fault; false if the weights are the likelier cause, as when all of
    several were left out."""


NOTHING = StepResult()
"""A result with nothing to report."""
