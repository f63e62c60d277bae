"""How many actors the learner wants: pure functions of what it measured, one file per policy."""

from learner.scaling.measure import Decision, Measurement
from learner.scaling.policy import decide, start

__all__ = ["Decision", "Measurement", "decide", "start"]
