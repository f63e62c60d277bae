"""How many actors the learner wants: decided from its measurements and from nothing else, with one file per policy."""

from learner.scaling.bounds import Bounds, kept, refusal, written
from learner.scaling.first_episodes import FirstEpisodes
from learner.scaling.measure import Decision, Measurement
from learner.scaling.meter import FleetMeter, Totals
from learner.scaling.policy import Scaler, start
from learner.scaling.reach import unreachable

__all__ = [
    "Bounds",
    "Decision",
    "FirstEpisodes",
    "FleetMeter",
    "Measurement",
    "Scaler",
    "Totals",
    "kept",
    "refusal",
    "start",
    "unreachable",
    "written",
]
