"""From settings to the parts of a learner: the environment is made once to see its spaces, `auto` is resolved.

This is where torch and gymnasium are loaded; the ports are taken before.
"""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import msgspec
import torch

from common.errors import ConfigurationError
from common.host.versions import versions
from common.rl.action_spec import ActionSpec
from common.rl.environments.make import make as make_environments
from common.rl.environments.names import resolve as resolve_environment
from common.rl.environments.spaces import describe
from common.rl.model import Model, build
from common.rl.moments import Moments, bytes_in_header
from common.rl.networks.registry import resolve as resolve_network
from common.rl.observation_spec import ObservationSpec
from common.run.folder import Checkpoint
from common.settings.exchanges import is_measured
from common.settings.exchanges import resolve as resolve_exchange
from common.settings.sections import Exchange, Settings
from common.wire.bodies.trajectory import TrajectoryFormat, trajectory_format
from common.wire.codecs.negotiate import choose
from common.wire.codecs.registry import NAMES, make
from learner.core import LearnerCore
from learner.exchange.policy_server import Acting
from learner.parameters.batch_trainer import Trainer, no_bodies
from learner.parameters.delay_compensation import Compensation
from learner.parameters.optimizers import FlatOptimizer, resolve_device
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.running_stats import Running
from learner.parameters.target_network import TARGET, Target
from learner.parameters.weights import ParameterStore
from learner.record.run_lock import OwnedRun
from learner.run_spec import Plan
from learner.run_stats import Counters, Ledger
from learner.scaling import Scaler
from learner.trials import Trials
from learner.undecided import UndecidedStore, blank

FP16_BYTES = 2**20
"""Weights above this travel as halves when exchange.weights is auto."""
LARGEST_BODY = 2**30
"""Of a message of trajectories: so much memory may be taken for one before it is read."""
T = TypeVar("T", bound=Trainer)
HEADER_BYTES = 2**20
"""Room for a header, and for the frame's own overhead, in the largest message taken."""


class Assembled:
    """Everything a learner is made of, besides sockets and files."""

    def __init__(self, run: OwnedRun, checkpoint: Checkpoint | None, weights_port: int, now: float) -> None:
        """Raises EnvironmentMissingError, ConfigurationError."""
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        settings, observation, action = _probe(run.settings)
        model = build(settings, observation, action)
        flat = model.flat
        device = resolve_device(settings.optimizer.device)
        model = model.to(device)
        vector = model.flat.vector
        weights = settings.exchange.weights
        if weights in ("auto", "delta"):
            weights = "fp32" if 4 * flat.size <= FP16_BYTES else "fp16"
        _check_headers(model.normalization.counted, settings.exchange.accumulate)
        self.settings = self.kept = settings
        """As resolved; `kept`: for the run folder, where exchange.kind is `auto` until it is decided."""
        self.plan = Plan(
            run=run.record.run,
            epoch=run.record.epoch,
            settings=settings,
            plain=msgspec.to_builtins(settings),
            network=settings.network.kind,
            model=flat.hash,
            parameters=flat.size,
            device=str(device),
            host=platform.node() or "unknown",
            run_dir=str(run.folder.path),
            weights_port=weights_port,
            weights_format=weights,
            counted=model.normalization.counted,
            clock=time.time() - now,
            versions=versions(),
        )
        optimizer = make_optimizer(settings.optimizer, vector, settings.limits.frames)
        counters, running = Counters(), Running(model.normalization, model.statistics)
        if checkpoint is not None:
            counters = self._restore(checkpoint, vector, optimizer.load, model.target)
            counted = Moments.from_checkpoint(checkpoint.state, model.normalization.counted)
            running = Running(model.normalization, model.statistics, counted)
        network: Acting | None = None
        trials: Trials | None = None
        if settings.exchange.kind == "trajectories":
            packing = trajectory_format(settings, observation, action, model.network.state_size)
            largest = _fitting(packing.max_bytes(settings.exchange.accumulate))
            self.store: ParameterStore = _trainer(settings, model, optimizer, running, packing, kind=Trainer)
        elif settings.exchange.kind == "actions":
            trainer = _trainer(settings, model, optimizer, running, kind=Trainer)
            self.store = trainer
            network = Acting(trainer, settings, observation, action)
            largest = network.max_bytes
        elif is_measured(run.settings) and (possible := _possible(settings, observation, model)) is not None:
            largest = max(_largest_gradient(settings, flat.size), possible.max_bytes(settings.exchange.accumulate))
            body = possible.pack([blank(settings, observation, model.network)], "none")
            kind = functools.partial(UndecidedStore, body=body)
            self.store = undecided = _trainer(settings, model, optimizer, running, possible, kind=kind)
            self.kept = _with_exchange(settings, "auto")
            later = functools.partial(_choose, _with_exchange(settings, "trajectories").exchange, flat.size)
            trials = Trials(undecided, self.plan.host, later, settings)
        else:
            largest = _largest_gradient(settings, flat.size)
            self.store = _gradients(settings, model, optimizer, running, counters.frames)
        scaler = Scaler(settings.scaling, counters.last_addition)
        self.ledger = Ledger(counters, settings.limits.window, scaler.start(), now)

        def choose_codec(offered: Collection[str], loopback: bool) -> str:
            return _choose(self.core.plan.settings.exchange, flat.size, offered, loopback)

        self.core = LearnerCore(self.plan, self.store, self.ledger, scaler, choose_codec, now, network, trials)
        self.max_bytes = HEADER_BYTES + largest

    def _restore(
        self, checkpoint: Checkpoint, vector: torch.Tensor, load_optimizer: Any, target: Model | None
    ) -> Counters:
        if checkpoint.state.get("model") != self.plan.model or checkpoint.weights.size != vector.numel():
            raise ConfigurationError(
                f"{self.plan.run_dir}: the checkpoint of version {checkpoint.version} holds another network than the "
                "settings describe; restore the settings it was made with"
            )
        vector.copy_(torch.from_numpy(checkpoint.weights))
        tensors = {name: torch.from_numpy(array) for name, array in checkpoint.optimizer.items()}
        try:
            if target is not None:
                copied = tensors.pop(TARGET, torch.zeros(0))
                if copied.shape != vector.shape:
                    raise ValueError(f"its target network has {copied.numel()} parameters, not {vector.numel()}")
                target.flat.vector.copy_(copied)
            load_optimizer(tensors)
            return msgspec.convert(checkpoint.state.get("counters"), Counters)
        except ValueError as error:  # msgspec's among them
            raise ConfigurationError(
                f"{self.plan.run_dir}: the checkpoint of version {checkpoint.version} does not fit: {error}; "
                "restore the settings it was made with"
            ) from error


def _gradients(
    settings: Settings, model: Model, optimizer: FlatOptimizer, running: Running, frames: int
) -> ParameterStore:
    staleness, vector = settings.staleness, model.flat.vector
    compensation = None
    if staleness.policy == "compensate":
        compensation = Compensation(vector, staleness.compensation, staleness.history_mib)
    target = None
    if model.target is not None:
        target = Target(model.target.flat.vector, settings.algorithm.target_frames, model.frames, frames)
    return ParameterStore(
        vector,
        optimizer,
        delay_seconds=settings.exchange.learner_delay_ms / 1e3,
        average=staleness.policy == "synchronous",
        compensation=compensation,
        top_k=settings.exchange.top_k,
        extras=model.extras,
        running=running,
        target=target,
    )


def _largest_gradient(settings: Settings, size: int) -> int:
    """Length that no body of a gradient exceeds, whatever the codec agreed on."""
    return max(make(name, size, settings.exchange.top_k).max_bytes for name in NAMES)


def _trainer(
    settings: Settings,
    model: Model,
    optimizer: FlatOptimizer,
    running: Running,
    packing: TrajectoryFormat | None = None,
    *,
    kind: Callable[..., T],
) -> T:
    return kind(
        model,
        optimizer,
        settings.algorithm,
        unpack=no_bodies if packing is None else packing.unpack,
        delay_seconds=settings.exchange.learner_delay_ms / 1e3,
        average=settings.staleness.policy == "synchronous",
        running=running,
        seed=settings.seed,
    )


def _fitting(size: int) -> int:
    if size > LARGEST_BODY:
        raise ConfigurationError(
            f"a trajectory could be {size >> 20:,} MiB long, at most {LARGEST_BODY >> 20:,} are taken: lower "
            "environment.num_envs, algorithm.rollout_length or exchange.accumulate"
        )
    return size


def _probe(settings: Settings) -> tuple[Settings, ObservationSpec, ActionSpec]:
    """The settings without `auto`, and what the network sees and decides."""
    environment = resolve_environment(settings.environment)
    probe = make_environments(environment, num_envs=1, seed=settings.seed)
    try:
        observation, action = describe(probe.observation_space), probe.action
    finally:
        probe.close()
    kind: Any = resolve_network(settings.network.kind, observation)
    network = msgspec.structs.replace(settings.network, kind=kind)
    settings = msgspec.structs.replace(settings, environment=environment, network=network)
    return (
        _with_exchange(settings, resolve_exchange(settings.exchange.kind, settings.algorithm.kind)),
        observation,
        action,
    )


def _with_exchange(settings: Settings, kind: Any) -> Settings:
    return msgspec.structs.replace(settings, exchange=msgspec.structs.replace(settings.exchange, kind=kind))


def _possible(settings: Settings, observation: ObservationSpec, model: Model) -> TrajectoryFormat | None:
    """How trajectories would be packed; None: they cannot be."""
    packing = trajectory_format(settings, observation, model.network.action, model.network.state_size)
    return packing if packing.max_bytes(settings.exchange.accumulate) <= LARGEST_BODY else None


def _check_headers(counted: int, accumulate: int) -> None:
    """Raises ConfigurationError where a header could not hold the moments of all rollouts of a gradient."""
    if (size := accumulate * bytes_in_header(counted)) > HEADER_BYTES // 2:
        raise ConfigurationError(
            f"network.normalize = true: the moments of {counted} numbers of exchange.accumulate = {accumulate} "
            f"rollouts are {size} bytes of a message's header, which has room for {HEADER_BYTES // 2}; use false"
        )


def _choose(exchange: Exchange, size: int, offered: Collection[str], loopback: bool) -> str:
    codec, link_mbit = exchange.codec, exchange.link_mbit
    if exchange.kind == "trajectories":
        # Nothing may be lost, and frames shrink so far that lz4 saves time even on loopback.
        codec, link_mbit, loopback = "none", 0.0 if loopback else link_mbit, False
    return choose(codec, exchange.entropy_coder, offered, size=size, loopback=loopback, link_mbit=link_mbit)
