"""Microseconds per step of every flat optimizer: `python -m benchmarks optimizers [DEVICE]`.

One thread; times are the shortest of several repeats. The sizes are the dense network on CartPole, a network of 17.5k
parameters, and A3C's conv network. The last row is torch.optim.Adam on the conv network's eight separate parameters.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

from benchmarks import tables
from benchmarks.tables import Cell
from common.settings.sections import Optimizer
from learner.parameters.devices import open_devices
from learner.parameters.optimizers import make

SIZES = (1_027, 17_538, 677_943)
SECTIONS = {
    "adam": Optimizer(kind="adam"),
    "rmsprop": Optimizer(kind="rmsprop"),
    "sgd": Optimizer(kind="sgd"),
    "sgd, momentum": Optimizer(kind="sgd", momentum=0.9),
}
SHAPES = ((16, 256), (16,), (32, 256), (32,), (256, 2592), (256,), (7, 256), (7,))


def main() -> None:
    torch.set_num_threads(1)
    device = open_devices(sys.argv[1] if len(sys.argv) > 1 else "cpu").first
    tables.machine()
    rows: list[tuple[Cell, ...]] = [
        (name, *(measure(section, size, device) for size in SIZES)) for name, section in SECTIONS.items()
    ]
    rows.append(("torch Adam, separate", None, None, measure_separate(device)))
    tables.show("Microseconds per step", ("optimizer", *(f"{size:,}" for size in SIZES)), rows)


def measure(section: Optimizer, size: int, device: torch.device) -> float:
    generator = torch.Generator().manual_seed(0)
    vector, gradient = (torch.randn(size, generator=generator).to(device) for _ in range(2))
    optimizer = make(section, vector, 0)
    return microseconds(lambda: optimizer.step(gradient, scale=0.5, frames=0), device)


def measure_separate(device: torch.device) -> float:
    parameters = [torch.randn(shape, device=device) for shape in SHAPES]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return microseconds(torch.optim.Adam(parameters).step, device)


def microseconds(call: Callable[[], object], device: torch.device, budget: float = 1.0) -> float:
    """Return the shortest time of the repeats that fit into the budget (in seconds)."""
    call()
    shortest, end = float("inf"), time.perf_counter() + budget
    while (start := time.perf_counter()) < end:
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        shortest = min(shortest, time.perf_counter() - start)
    return shortest * 1e6


if __name__ == "__main__":
    main()
