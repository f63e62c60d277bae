"""The state of a run as the learner reports it: for `a3cd status`, the live panel and the summary."""

from typing import Any

import msgspec

from common.rl.episode_statistics import ReturnStatistics


class SenderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A peer that sends gradients or trajectories, as the learner sees it."""

    name: str
    host: str
    pid: int
    state: str
    last_error: str
    """The last error that it, or an actor of its site, recovered from; empty once that is ten minutes ago."""
    frames: int
    frames_per_second: float
    gradients: int
    """Applied: gradients, sums of them, or trajectories."""
    stale: int
    refused: int
    lag: float
    """Mean lag of its recent gradients."""
    seen: float
    """Seconds since its last message."""


class PeerStatus(SenderStatus, frozen=True, kw_only=True):
    """One actor."""

    launcher: str
    versions: dict[str, str] = {}


class RelayStatus(SenderStatus, frozen=True, kw_only=True):
    """One relay, and what it reports of its site."""

    actors: int
    """Actors of its site."""
    site_stale: int
    """Gradients of its actors that were too old for it to take; `stale` and `refused` count its own sums."""
    site_refused: int
    """Gradients of its actors that it could not use."""
    site: dict[str, float] = {}
    """Frames per second of its actors by their names; if there are too many, of those that joined first."""


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One launcher as the learner sees it."""

    name: str
    host: str
    slots: int
    ordered: int
    running: int
    starting: int
    failed: int
    gave_up: bool
    exit_code: int
    why: str
    retry_seconds: int = 0
    """Seconds until it tries again, if it gave up."""
    restarts: dict[str, int] = {}
    """How often each of its actors ended without being told to, and was started again, since the launcher started."""


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One host, as the peers on it report."""

    name: str
    actors: int
    processor: float
    """Fraction of its processors' time that all processes together use, 0 to 1."""
    memory: int
    """Bytes in use."""
    memory_total: int


class KeyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One key of the learner's list."""

    name: str
    roles: list[str]
    peers: int
    """Peers that are in the run with this key now."""
    seen: float | None
    """Seconds since the last message under this key; None: none since this learner began."""


class CheckpointStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The newest checkpoint on the disk."""

    version: int | None = None
    """None: there is none yet."""
    age: float | None = None
    """Seconds of training that it lacks, as far as this learner knows: since it was made, or was resumed from."""
    error: str = ""
    """Why the last attempt to write one failed; empty: it did not."""


class EvaluationStatus(ReturnStatistics, frozen=True, kw_only=True):
    """How well the weights of one version played episodes that no actor plays, over all their evaluations."""

    version: int
    frames: int
    """Frames of the run when these weights were the newest."""
    seconds: float
    """Seconds of the run when these weights were the newest."""

    def __str__(self) -> str:
        between = "" if self.low is None else f" ({self.low:.4g} to {self.high:.4g})"
        return f"mean return {self.mean:.4g}{between} over {self.episodes} episodes"


class QuarantineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A peer that is kept out of the run for a while."""

    name: str
    place: str
    """Its key, or without keys the address that it connects from."""
    why: str
    seconds_left: float


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. Counters and seconds are over all epochs; rates are over the last seconds."""

    run: str
    epoch: int
    state: str
    """running, evaluating (the last weights, after the end of the learning), reached (the goal), finished (another
    limit), stopped (by a signal), failed."""
    env: str
    algorithm: str
    network: str
    parameters: int
    seed: int
    codec: str
    device: str
    run_dir: str
    seconds: float
    frames: int
    emulator_frames: int
    episodes: int
    version: int
    gradients: int
    """Applied: gradients, or trajectories; with actions, rollouts."""
    stale: int
    refused: int
    duplicates: int
    unknown: int = 0
    """Gradients or trajectories that were meant for another run or epoch than the learner's."""
    gradient_bytes: int
    """Bytes of bodies that actors uploaded: gradients, trajectories or observations."""
    weight_bytes: int
    """Bytes of weights sent: broadcasts (times subscribers), welcomes and pulls."""
    action_bytes: int = 0
    """Bytes of actions sent."""
    mean_return: float | None
    """Mean training return over the last `limits.window` episodes; None before the first."""
    best_return: float | None
    """Highest mean over a full window."""
    evaluations: int = 0
    """Reports of evaluators."""
    evaluation: EvaluationStatus | None = None
    """The evaluation of the weights that were evaluated last."""
    best_evaluation: EvaluationStatus | None = None
    """The evaluation of the best weights, which two evaluations have confirmed."""
    returns_to_best: int = 0
    """Times that the run went back to its best checkpoint (checkpoint.return_to_best)."""
    learning_rate_factor: float = 1.0
    """Factor on optimizer.learning_rate that results from these returns."""
    episode_length: float | None
    episode_seconds: float | None
    frames_per_second: float
    gradients_per_second: float
    bytes_per_second: float
    lag_mean: float
    lag_p95: float
    learner_busy: float
    """Fraction of the time that the learner's thread was busy."""
    goal: float | None
    seconds_left: float | None
    frames_left: int | None
    episodes_left: int | None
    reached: bool
    actors_now: int
    actors_wanted: int
    actors_peak: int
    why: str
    """Reason of the last scaling decision, with its numbers."""
    losses: dict[str, float] = {}
    time: float = 0.0
    """The learner's clock, seconds since 1970."""
    versions: dict[str, str] = {}
    """Versions of the learner's Python and packages."""
    exchange: str = ""
    """exchange.kind, resolved: gradients, trajectories or actions."""
    warnings: list[str] = []
    """The last few errors that the learner recovered from."""
    checkpoint: CheckpointStatus = CheckpointStatus()
    health: list[str] = []
    """What is wrong now with the learning, or with an actor's gradients, and what to try."""
    quarantined: list[QuarantineStatus] = []
    """Peers that are kept out for a while."""
    weights: str = ""
    """SHA-256 of the final weights, equal for two runs of the same settings with reproducible = true; empty: the run
    goes on."""
    disk_free: int | None = None
    """Bytes that the disk of the run folder has left for this user; None: not looked at yet."""
    hosts: list[HostStatus] = []
    """Hosts of actors, launchers and evaluators, and the learner's."""
    keys: list[KeyStatus] = []
    """Keys of the learner's list; empty without keys."""
    actors: list[PeerStatus] = []
    launchers: list[FleetStatus] = []
    relays: list[RelayStatus] = []


EVALUATED = {
    "best_evaluation": "mean",
    "best_evaluation_low": "low",
    "best_evaluation_high": "high",
    "best_evaluation_episodes": "episodes",
    "best_evaluation_version": "version",
}
"""Keys of the summary for the best weights by evaluation, and the figures they are; None if there are none."""
SUMMARY_KEYS = (
    *("env", "algorithm", "network", "seed", "frames", "emulator_frames", "episodes", "seconds", "frames_per_second"),
    *("mean_return", "best_return", "reached", "gradients", "stale", "refused", "gradient_bytes", "weight_bytes"),
    *("action_bytes", "lag_mean", "lag_p95", "actors_peak", "learner_busy", "run_dir", "run", "epoch", "state"),
    *("checkpoint", "weights", "evaluations", *EVALUATED),
)


def summary(status: RunStatus) -> dict[str, Any]:
    """Return the run as one flat object, as printed by `--json`.

    frames_per_second is over the whole run; checkpoint is the version of the newest checkpoint, None if there is none.
    """
    plain = msgspec.to_builtins(status)
    plain["checkpoint"] = status.checkpoint.version
    plain |= {key: getattr(status.best_evaluation, of, None) for key, of in EVALUATED.items()}
    plain["frames_per_second"] = status.frames / status.seconds if status.seconds > 0 else 0.0
    return {key: plain[key] for key in SUMMARY_KEYS}
