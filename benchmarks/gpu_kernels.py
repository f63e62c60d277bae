"""Costs of an optimizer step: time of the host that starts the kernels, and of the device that runs them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.fed_learner import Fleet, played, settings_of, spaces
from common.rl.networks.lstm import LSTM
from learner.exchange.trajectories import TrajectoryExchange

REPEATS = 20
STEPS, COPIES, UNITS = 21, 256, 128


@dataclass(frozen=True)
class Launches:
    """Kernels of one optimizer step, and times in seconds."""

    kernels: int | None
    """Number of kernels; None without a CUDA device."""
    host: float
    """Time until all kernels are started."""
    whole: float
    """Time until all kernels have finished."""
    busy: float | None
    """Time in kernels according to the profiler; None without a CUDA device."""


def launches(network: str, device: str, copies: int, *more: str) -> Launches:
    """Return the costs of a step; `more` are further settings."""
    settings = settings_of("trajectories", network, device, f"environment.num_envs={copies}", *more)
    fleet = Fleet(settings, 1)
    trainer = _trainer(fleet)
    observation, action = spaces(fleet.settings)
    steps = fleet.settings.algorithm.rollout_length
    rollout = played(np.random.default_rng(0), observation, action, steps, copies)

    def step(times: list[tuple[float, float]]) -> None:
        trainer.add(rollout)
        _wait(device)
        begun = time.perf_counter()
        trainer.begin(scale=1.0, frames=0)
        started = time.perf_counter()
        trainer.finish()
        times.append((started - begun, time.perf_counter() - begun))

    times: list[tuple[float, float]] = []
    for _ in range(REPEATS):
        step(times)
    host, whole = (float(np.median(column)) for column in zip(*times, strict=True))
    if not device.startswith("cuda"):
        return Launches(None, host, whole, None)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        step([])
        _wait(device)
    events: list[Any] = [one for one in profiled.events() or [] if one.device_type.name == "CUDA"]
    return Launches(len(events), host, whole, 1e-6 * sum(one.time_range.elapsed_us() for one in events))


def lstm_times(device: torch.device) -> tuple[float, float]:
    """Return the seconds of a forward and backward pass: a3cd's LSTM, and torch's, which cannot reset in a rollout."""
    generator = torch.Generator().manual_seed(0)
    ours = LSTM(UNITS, UNITS, generator).to(device)
    theirs = torch.nn.LSTM(UNITS, UNITS).to(device)
    features = torch.randn(STEPS, COPIES, UNITS, generator=generator).to(device).requires_grad_()
    state = torch.zeros(COPIES, 2 * UNITS, device=device)
    keep = torch.ones(STEPS - 1, COPIES, dtype=torch.bool, device=device)
    passes: tuple[Callable[[], Any], ...] = (
        lambda: ours(features, state, keep).sum().backward(),
        lambda: theirs(features)[0].sum().backward(),
    )
    found = []
    for one in passes:
        one()
        _wait(str(device))
        begun = time.perf_counter()
        for _ in range(REPEATS):
            one()
        _wait(str(device))
        found.append((time.perf_counter() - begun) / REPEATS)
    return found[0], found[1]


def _trainer(fleet: Fleet) -> Any:
    exchange = fleet.exchange
    assert isinstance(exchange, TrajectoryExchange)
    return exchange._trainer


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
