"""Frames per second of every network, for acting and for gradients.

    python -m benchmarks networks [--seconds 1.5] [--side 84] [--threads 1] [--precision float32]

Times are the shortest of several repeats. "act" is a forward pass of one batch; "gradient" is
`common.rl.gradient.gradient` on 20 steps of 16 environments. --threads and --precision are as in the learner's
optimizer settings; --precision applies to gradients only. The last row is A3C's network in its usual form:
torch.nn.Conv2d on x.float() / 255 in float32, with one batch for the gradient.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import tables
from benchmarks.tables import Cell
from common.rl.action_spec import discrete
from common.rl.gradient import gradient
from common.rl.networks.model import TorchModel, build
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm, Network, Settings
from learner.arithmetic import set_arithmetic

STEPS, COPIES, ACTIONS = 20, 16, 6
VECTOR = ObservationSpec((4,), "box", 4)
NETWORKS = {
    "dense 128": Network(),
    "dense 128, separate": Network(shared=False),
    "dense 256 256": Network(hidden=[256, 256]),
    "dense 128, lstm 128": Network(lstm=128),
    "conv-a3c": Network(kind="conv-a3c"),
    "conv-students": Network(kind="conv-students"),
    "conv-nature": Network(kind="conv-nature"),
    "conv-impala": Network(kind="conv-impala"),
}
COLUMNS = ("network", "parameters", "act 1 us", "act 16 us", "act frames/s", "gradient us", "gradient frames/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.5, help="for each figure")
    parser.add_argument("--side", type=int, default=84, help="pixels along each side of a frame")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    arguments = parser.parse_args()
    budget, side = arguments.seconds, arguments.side
    set_arithmetic(arguments.threads)
    tables.machine()
    picture = ObservationSpec((4, side, side), "pixels", 4 * side * side)
    rows = []
    for name, section in NETWORKS.items():
        observation = picture if section.kind.startswith("conv-") else VECTOR
        model = build(Settings(network=section), observation, discrete(ACTIONS))
        rows.append(row(name, *ours(model, observation, budget, bfloat16=arguments.precision == "bfloat16")))
    rows.append(row("conv-a3c, plain form", *plain(picture, budget)))
    title = (
        f"{COPIES} copies, rollouts of {STEPS} steps, {side}x{side}, {arguments.threads} threads, {arguments.precision}"
    )
    tables.show(title, COLUMNS, rows)


def row(name: str, size: int, one: float, batch: float, whole: float) -> tuple[Cell, ...]:
    """Return a row of COLUMNS; `one`, `batch` and `whole` are in seconds."""
    return name, size, one * 1e6, batch * 1e6, COPIES / batch, whole * 1e6, STEPS * COPIES / whole


def ours(
    model: TorchModel, observation: ObservationSpec, budget: float, *, bfloat16: bool
) -> tuple[int, float, float, float]:
    """Return the number of parameters, and the seconds to act for one copy, to act for all, and for a gradient."""
    network = model.network
    rollout = make_rollout(observation)
    step = torch.from_numpy(rollout.observations[0])
    model.accelerate(step, bfloat16=bfloat16, compiled=False)
    if network.state_size:
        rollout = replace(rollout, state=np.zeros((COPIES, network.state_size), np.float32))
    state = torch.zeros(COPIES, network.state_size)
    return (
        model.flat.size,
        seconds(lambda: network.step(step[:1], state[:1]), budget),
        seconds(lambda: network.step(step, state), budget),
        seconds(lambda: gradient(model, rollout, Algorithm()), budget),
    )


def make_rollout(observation: ObservationSpec) -> Rollout:
    generator = torch.Generator().manual_seed(0)
    shape = (STEPS, COPIES)
    numbers = np.random.default_rng(0).integers(256, size=(STEPS + 1, COPIES, *observation.shape))
    return Rollout(
        observations=numbers.astype(observation.dtype),
        actions=torch.randint(0, ACTIONS, shape, generator=generator).numpy(),
        rewards=torch.randn(shape, generator=generator).numpy(),
        terminated=(torch.rand(shape, generator=generator) < 0.02).numpy(),
        valid=(torch.rand(shape, generator=generator) < 0.98).numpy(),
        behaviour_log_probs=np.full(shape, -1.8, np.float32),
    )


def plain(picture: ObservationSpec, budget: float) -> tuple[int, float, float, float]:
    """Return the same as `ours`, for a network of torch's own layers."""
    convolutions = (nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten())
    network = nn.Sequential(*convolutions, nn.LazyLinear(256), nn.ReLU(), nn.Linear(256, ACTIONS + 1))
    rollout = make_rollout(picture)
    observations = torch.from_numpy(rollout.observations)
    step, batch = observations[0], observations.flatten(0, 1)
    network(step.float())  # fixes the size of the lazy layer
    direction = torch.full((len(batch), ACTIONS + 1), 1e-3)

    def act(observations: Tensor) -> None:
        with torch.inference_mode():
            network(observations.float() / 255)

    return (
        sum(parameter.numel() for parameter in network.parameters()),
        seconds(lambda: act(step[:1]), budget),
        seconds(lambda: act(step), budget),
        seconds(lambda: torch.autograd.backward(network(batch.float() / 255), direction), budget),
    )


def seconds(call: Callable[[], object], budget: float) -> float:
    """Return the shortest time, in seconds, of the repeats that fit into the budget (also seconds)."""
    call()
    shortest, end = float("inf"), time.perf_counter() + budget
    while (start := time.perf_counter()) < end:
        call()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


if __name__ == "__main__":
    main()
