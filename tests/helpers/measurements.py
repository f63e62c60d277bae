"""Measurements for scaling policies, with the fields that a test changes."""

from __future__ import annotations

from typing import Any

from learner.scaling import Measurement


def measured(**changed: Any) -> Measurement:
    """Returns a measurement of ten actors run by a launcher, all present, over five seconds."""
    fields: dict[str, Any] = {
        "actors": 10,
        "wanted": changed.get("actors", 10),
        "seconds": 5.0,
        "episodes_since": 0,
        "mean_episode_length": None,
        "mean_episode_seconds": None,
        "learner_busy": 0.7,
        "lag_mean": 3.0,
        "rollouts_per_second": 100.0,
        "steps_per_second": 100.0,
        "frames_per_second": (2000.0, 2010.0, 1990.0, 2000.0),
    }
    return Measurement(**(fields | changed))
