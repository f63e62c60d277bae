"""Small simulated clusters."""

from __future__ import annotations

from typing import Any

from common.settings.sections import Settings
from common.settings.toml import override
from simulation.cluster import Cluster
from simulation.recorders import MemoryRecorder
from simulation.settings import Costs, Incident, Simulation

SMALL = (
    "environment.num_envs=2",
    "network.hidden=[8]",
    "algorithm.rollout_length=8",
    "exchange.kind=gradients",
    "scaling.policy=fixed",
    "limits.frames=4000",
)


SLOW = Costs(batch_step=0.02)
"""Costs with which a virtual second has few steps, because each step takes real time."""


def cluster_of(*assignments: str, actors: int = 3, costs: Costs = SLOW, **world: Any) -> tuple[Cluster, MemoryRecorder]:
    """Returns a cluster that plays 4000 frames of CartPole-v1 with a small network; `world`: fields of Simulation."""
    count = (f"scaling.minimum={actors}", f"scaling.maximum={actors}")
    settings = override(Settings(), (*SMALL, *count, *assignments))
    recorder = MemoryRecorder()
    return Cluster(settings, Simulation(costs=costs, **world), recorder), recorder


def incidents(*happenings: tuple[float, str, str]) -> list[Incident]:
    """Returns incidents, each given as its time, its kind and whom it befalls."""
    return [Incident(at=at, kind=kind, who=who) for at, kind, who in happenings]  # type: ignore[arg-type]
