"""How many actors the learner wants: pure functions of what it measured, one file per policy."""

from learner.scaling.measure import Decision, Measurement
from learner.scaling.policy import Scaler

__all__ = ["Decision", "Measurement", "Scaler"]
