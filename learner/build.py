"""Builds the parts of a learner from settings: makes the environment once to see its spaces, and resolves `auto`.

This module loads torch and gymnasium; the daemon imports it only after it has taken its ports.
"""

import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from common.errors import ConfigurationError
from common.host.versions import versions
from common.rl.action_spec import ActionSpec
from common.rl.environments.make import make as make_environments
from common.rl.environments.names import draws_actions, longest_episode
from common.rl.environments.names import resolve as resolve_environment
from common.rl.environments.timing import step_seconds
from common.rl.moments import bytes_in_header
from common.rl.network_kind import resolve as resolve_network
from common.rl.networks.acceleration import bfloat16_trouble
from common.rl.networks.model import TorchModel
from common.rl.networks.model import build as build_model
from common.rl.networks.plain import named_tensors
from common.rl.observation_spec import ObservationSpec
from common.run.folder import Checkpoint, RunFolder, RunRecord
from common.settings.exchanges import momentum, most_in_message, staleness_policy, wanted_device
from common.settings.exchanges import resolve as resolve_exchange
from common.settings.sections import Settings
from learner.arithmetic import set_arithmetic
from learner.background import background
from learner.core import LearnerCore
from learner.exchange.base import Exchange
from learner.exchange.make import make as make_exchange
from learner.meters import rate_seconds
from learner.parameters.devices import open_devices
from learner.parameters.replicas import Replicas
from learner.parameters.weights import Weights
from learner.peers import Peers
from learner.record.run_lock import LockedRun
from learner.restore import weights_and_counters
from learner.run import MOMENT_BYTES, Run, RunSpec
from learner.run_stats import RunStats
from learner.save_schedule import SaveSchedule

FP16_BYTES = 2**20
"""Weights longer than this many bytes are sent as float16 when exchange.weights is auto."""


def build(locked: LockedRun, checkpoint: Checkpoint | None, weights_port: int, now: float) -> LearnerCore:
    """Return the core of a learner, without sockets and files, for a new run or for one resumed from `checkpoint`.

    Raises what `assemble` raises.
    """
    set_arithmetic(locked.settings.optimizer.threads)
    parts = assemble(locked.folder, locked.record, locked.settings, checkpoint, weights_port, now)
    return LearnerCore(parts.run, parts.weights, parts.exchange, now)


@dataclass(frozen=True)
class Parts:
    """The parts of a learner without its core, as a replay needs them."""

    run: Run
    weights: Weights
    exchange: Exchange


def assemble(
    folder: RunFolder,
    record: RunRecord,
    settings: Settings,
    checkpoint: Checkpoint | None,
    weights_port: int = 0,
    now: float = 0.0,
) -> Parts:
    """Return the parts of a learner of this run; nothing is read from the folder.

    Raises EnvironmentMissingError, and ConfigurationError for settings that do not go with the environment, the
    machine or the checkpoint.
    """
    settings, observation, action = _with_environment(settings)
    devices = open_devices(wanted_device(settings))
    settings = _resolve(settings, str(devices))
    model = build_model(settings, observation, action)
    _check_headers(model.normalization.counted, most_in_message(settings))
    spec = _spec(folder, record, settings, model, str(devices), weights_port)
    if checkpoint is None and model.normalization.pixels:
        model.background[:] = background(settings.environment, settings.seed)
    model = model.to(devices.first)
    replicas = Replicas(model, devices.others) if devices.others else None
    unhelpful = _accelerate(replicas or model, settings, observation, devices.first)
    weights, counters = weights_and_counters(spec, model, checkpoint)
    stats = RunStats(counters, settings, now, None if checkpoint is None else checkpoint.score)
    stats.clock = time.time() - now
    for trouble in filter(None, (devices.trouble, unhelpful)):
        stats.warn(trouble)
    saves = SaveSchedule(settings.checkpoint.every_seconds, now, None if checkpoint is None else checkpoint.version)
    run = Run(spec, Peers(rate_seconds(settings)), stats, saves)
    return Parts(run, weights, make_exchange(run, weights, model, replicas, observation))


def check(settings: Settings) -> Run:
    """Return the run that a learner would begin with these settings; needs no folder. Raises what `assemble` raises."""
    record = RunRecord(run="", created="", epoch=1, a3cd="")
    return assemble(RunFolder(Path()), record, settings, None).run


def _with_environment(settings: Settings) -> tuple[Settings, ObservationSpec, ActionSpec]:
    """Return the settings with the `auto`s of environment and network resolved, and what is observed and done there."""
    environment = resolve_environment(settings.environment)
    probe = make_environments(environment, num_envs=1, seed=settings.seed)
    try:
        observation, action = probe.observation, probe.action
    finally:
        probe.close()
    network = msgspec.structs.replace(settings.network, kind=resolve_network(settings.network.kind, observation))
    return msgspec.structs.replace(settings, environment=environment, network=network), observation, action


def _resolve(settings: Settings, device: str) -> Settings:
    """Return the settings with every other `auto` resolved."""
    kind: Any = resolve_exchange(settings, settings.network.kind, device)
    if kind == "gradients" and "," in device:
        raise ConfigurationError(
            f'optimizer.device = "{device}" is for a learner that computes gradients; with exchange.kind = "gradients" '
            "its actors do: name one device, or use trajectories"
        )
    exchange = msgspec.structs.replace(settings.exchange, kind=kind)
    evaluation = msgspec.structs.replace(settings.evaluation, sampled=draws_actions(settings))
    policy: Any = staleness_policy(settings)
    staleness = msgspec.structs.replace(settings.staleness, policy=policy)
    optimizer = msgspec.structs.replace(settings.optimizer, beta1=momentum(settings, kind))
    sections: dict[str, Any] = {"exchange": exchange, "optimizer": optimizer, "staleness": staleness}
    return msgspec.structs.replace(settings, **sections, evaluation=evaluation)


def _spec(
    folder: RunFolder,
    record: RunRecord,
    settings: Settings,
    model: TorchModel,
    device: str,
    weights_port: int,
) -> RunSpec:
    form = settings.exchange.weights
    if form in ("auto", "delta"):
        form = "fp32" if 4 * model.flat.size <= FP16_BYTES else "fp16"
    in_seconds = settings.scaling.policy == "episode-duration" and settings.scaling.unit == "seconds"
    return RunSpec(
        run=record.run,
        epoch=record.epoch,
        settings=settings,
        model=model.flat.hash,
        parameters=model.flat.size,
        device=device,
        host=platform.node() or "unknown",
        run_dir=str(folder.path),
        weights_port=weights_port,
        weights_format=form,
        longest_episode=longest_episode(settings.environment),
        step_seconds=step_seconds(settings.environment, settings.seed) if in_seconds else 0.0,
        layout=tuple(named_tensors(model)),
        counted=model.normalization.counted,
        versions=versions(),
    )


def _accelerate(
    model: TorchModel | Replicas, settings: Settings, observation: ObservationSpec, device: torch.device
) -> str:
    """Switch on bfloat16 and compilation where they are set; return why that does not help here, or an empty text.

    Raises ConfigurationError if the device or this installation of torch cannot do it.
    """
    bfloat16, compiled = settings.optimizer.precision == "bfloat16", settings.optimizer.compile
    if not (bfloat16 or compiled):
        return ""
    if settings.exchange.kind == "gradients":
        return (
            "optimizer.precision and optimizer.compile are for a learner that computes gradients; with exchange.kind = "
            '"gradients" its actors do, in float32'
        )
    probe = torch.from_numpy(np.zeros((2, *observation.shape), observation.dtype)).to(device)
    model.accelerate(probe, bfloat16=bfloat16, compiled=compiled)
    return bfloat16_trouble(device) if bfloat16 else ""


def _check_headers(counted: int, rollouts: int) -> None:
    """Raise ConfigurationError if a message's header cannot hold the moments of all its `rollouts`."""
    if (size := rollouts * bytes_in_header(counted)) > MOMENT_BYTES:
        raise ConfigurationError(
            f"network.normalize = true: the moments of {counted} numbers are {size} bytes of a message's header (up to "
            f"{rollouts} times, exchange.accumulate), which has room for {MOMENT_BYTES}; use false"
        )
