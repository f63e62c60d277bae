"""Examples of a run's status; each function takes the fields to change."""

from __future__ import annotations

from typing import Any

from common.run.status import EvaluationStatus, FleetStatus, PeerStatus, RelayStatus, RunStatus

_PEER: dict[str, Any] = {
    "name": "lab-01",
    "host": "lab",
    "pid": 4100,
    "launcher": "gpu-box",
    "state": "working",
    "last_error": "",
    "frames": 30_100,
    "frames_per_second": 1071.3,
    "gradients": 900,
    "stale": 2,
    "refused": 0,
    "lag": 1.1,
    "seen": 0.2,
}
_RELAY: dict[str, Any] = {
    "name": "hub",
    "host": "hub",
    "pid": 77,
    "state": "working",
    "last_error": "",
    "actors": 3,
    "frames": 30_100,
    "frames_per_second": 2071.3,
    "gradients": 900,
    "stale": 2,
    "refused": 0,
    "lag": 1.5,
    "seen": 0.2,
    "site_stale": 17,
    "site_refused": 0,
    "site": {"there-0": 812.5, "there-1": 790.0},
}
_FLEET: dict[str, Any] = {
    "name": "gpu-box",
    "host": "gpu-box",
    "slots": 8,
    "ordered": 7,
    "running": 6,
    "starting": 1,
    "failed": 2,
    "gave_up": False,
    "exit_code": 0,
    "why": "",
}
_EVALUATION: dict[str, Any] = {
    "episodes": 40,
    "mean": 91.5,
    "low": 88.2,
    "high": 94.8,
    "std": 10.3,
    "median": 92.0,
    "interquartile_mean": 91.9,
    "minimum": 60.0,
    "maximum": 110.0,
    "version": 20_000,
    "frames": 1_150_000,
    "seconds": 690.0,
}
_RUN: dict[str, Any] = {
    "run": "9649236e67ffe1b7",
    "epoch": 1,
    "state": "running",
    "env": "FlappyBird-v0",
    "algorithm": "a3c",
    "network": "dense",
    "parameters": 17_538,
    "seed": 3,
    "codec": "int8+lz4",
    "device": "cpu",
    "run_dir": "runs/x",
    "seconds": 724.0,
    "frames": 1_204_320,
    "emulator_frames": 1_204_320,
    "episodes": 12_345,
    "version": 21_000,
    "gradients": 60_216,
    "stale": 12,
    "refused": 0,
    "duplicates": 0,
    "gradient_bytes": 1_100_000_000,
    "weight_bytes": 4_230_000_000,
    "mean_return": 87.3,
    "best_return": 92.14,
    "episode_length": 86.4,
    "episode_seconds": 23.1,
    "frames_per_second": 4312.0,
    "gradients_per_second": 215.3,
    "bytes_per_second": 5e6,
    "lag_mean": 1.23,
    "lag_p95": 4.0,
    "learner_busy": 0.34,
    "goal": 100.0,
    "seconds_left": None,
    "frames_left": 795_680,
    "episodes_left": None,
    "reached": False,
    "actors_now": 12,
    "actors_wanted": 13,
    "actors_peak": 12,
    "why": "mean episode 23.1 s > 20 s: 12 -> 13 actors",
    "losses": {"policy_loss": -0.0123, "value_loss": 0.231, "entropy": 0.612, "gradient_norm": 1.73},
}


def peer_status(**changed: Any) -> PeerStatus:
    """Returns the status of an actor."""
    return PeerStatus(**(_PEER | changed))


def fleet_status(**changed: Any) -> FleetStatus:
    """Returns the status of a launcher."""
    return FleetStatus(**(_FLEET | changed))


def relay_status(**changed: Any) -> RelayStatus:
    """Returns the status of a relay, with two of its three actors named."""
    return RelayStatus(**(_RELAY | changed))


def evaluation_status(**changed: Any) -> EvaluationStatus:
    """Returns the status of two evaluations."""
    return EvaluationStatus(**(_EVALUATION | changed))


def run_status(**changed: Any) -> RunStatus:
    """Returns the status of a run in its middle, without peers."""
    return RunStatus(**(_RUN | changed))
