"""A learner on a GPU, and whether it learns what one on the CPU does: `python -m benchmarks gpu [--device cuda]`.

The learner's core is fed with a fleet's messages in this process, without sockets: first ten optimizer steps of each
exchange on the device and on the CPU, whose weights must agree; then, for some seconds, as many messages as it takes.
Frames are those learnt from. "waits" is the share of turns in which every actor waited for the learner and the learner
for its device. The other parts help with decisions: whether `auto` should choose the GPU where there is little to do,
what several devices bring (`--devices cuda:0,cuda:1`; by default all), how a3cd's LSTM compares with cuDNN's, and what
CUDA graphs bring. If a part fails, that is reported and the others go on; with --json each part is written when
done. `--device cpu` runs a small version.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import torch

from benchmarks import tables
from benchmarks.fed_learner import Fleet, settings_of
from benchmarks.gpu_kernels import Launches, launches, lstm_times
from common.rl.distributions.base import Floats
from learner.arithmetic import set_arithmetic

TOLERANCE = 1e-4
EQUAL_STEPS = 10
WARM_STEPS = 3
"""Steps before a measurement, at least: the first compile what is to be compiled."""
WAYS = (("bfloat16", False), ("float32", True), ("bfloat16", True))
"""optimizer.precision and optimizer.compile."""
NETWORKS = ("conv-a3c", "conv-impala")
EXCHANGES = ("trajectories", "actions")
LITTLE = (("dense", "gradients"), ("conv-impala", "gradients"), ("dense", "trajectories"))
WORTH = 1.1
"""A GPU is recommended if it learns from at least this many times the CPU's frames."""
COLUMNS = ("learner", "actors", "frames/s", "steps/s", "frames a step", "waits %", "GPU busy %", "MiB at most")


def equal(device: str, kind: str, network: str = "conv-a3c") -> float:
    """Return the largest difference of a weight after the same steps on the device and on the CPU."""
    return float(np.abs(learnt("cpu", kind, network) - learnt(device, kind, network)).max())


def learnt(device: str, kind: str, network: str = "conv-a3c") -> Floats:
    """Return the weights after EQUAL_STEPS steps with one actor, so that batches are the same on every device."""
    small = ("environment.num_envs=4", "exchange.groups=1", "algorithm.rollout_length=5", "optimizer.kind='sgd'")
    fleet = Fleet(settings_of(kind, network, device, *small), 1)
    transport: Any = fleet.weights.transport
    transport.mark = lambda: lambda: True  # wait for each step, so that the newest weights act, as on a CPU
    while fleet.version < EQUAL_STEPS:
        fleet.advance()
    return fleet.weights.vectors()[0]


def speed(given: argparse.Namespace, kind: str, network: str, device: str, *more: str) -> list[Any]:
    """Return a row of COLUMNS; `more` are further settings."""
    fleet = Fleet(settings_of(kind, network, device, f"environment.num_envs={given.copies}", *more), given.actors)
    on_gpu = fleet.weights.vector.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    usage, waits = [], 0
    until = time.monotonic() + given.warm_up
    while time.monotonic() < until or fleet.version < WARM_STEPS:
        fleet.advance()
    begun, frames, version, turns = time.monotonic(), fleet.run.stats.counters.frames, fleet.version, 0
    looked = begun
    while (now := time.monotonic()) < begun + given.seconds:
        waits += not fleet.advance()
        turns += 1
        if on_gpu and now > looked + 0.5:
            looked = now
            usage.append(busy())
    seconds = time.monotonic() - begun
    frames, steps = fleet.run.stats.counters.frames - frames, fleet.version - version
    used = [one for one in usage if one is not None]
    memory = torch.cuda.max_memory_allocated() / 2**20 if on_gpu else None
    return [
        f"{network}, {kind}, {device}", given.actors, frames / seconds, steps / seconds, frames / max(1, steps),
        100 * waits / max(1, turns), float(np.mean(used)) if used else None, memory,
    ]  # fmt: skip


def busy() -> float | None:
    """Return the GPU's utilization in per cent; None where it is not known."""
    try:
        return float(torch.cuda.utilization())
    except (ModuleNotFoundError, RuntimeError):
        return None


# -- the parts, each of which shows a table ----------------------------------------------------------------------------


def agreement(given: argparse.Namespace) -> None:
    cases = [(network, kind) for network in NETWORKS for kind in ("gradients", *EXCHANGES)]
    rows = [(f"{network}, {kind}", equal(given.device, kind, network)) for network, kind in cases]
    title = f"Largest difference of a weight after {EQUAL_STEPS} steps on {given.device} and on the CPU"
    tables.show(title, ("network, exchange", "difference"), [(name, f"{one:.1e}") for name, one in rows])
    if (most := max(one for _, one in rows)) > TOLERANCE:
        raise RuntimeError(f"the weights differ by {most:.1e}, more than {TOLERANCE:g}")


def speeds(given: argparse.Namespace) -> None:
    rows = []
    for network, kind, (used, setting) in product(NETWORKS, EXCHANGES, choices(given)):
        row = speed(given, kind, network, given.device, setting)
        rows.append([f"{row[0]}{', CUDA graphs' if used == 'yes' else ''}", *row[1:]])
    tables.show(f"On {given.device}, {given.copies} environments an actor", COLUMNS, rows)


def ways(given: argparse.Namespace) -> None:
    """Show what bfloat16 and compilation bring to the larger network."""
    rows = []
    for precision, compiled in WAYS:
        settings = f"optimizer.precision='{precision}'", f"optimizer.compile={str(compiled).lower()}"
        row = speed(given, "trajectories", NETWORKS[-1], given.device, *settings)
        rows.append([f"{precision}, {'' if compiled else 'not '}compiled", *row[1:]])
    tables.show(f"Other ways to compute {NETWORKS[-1]}, trajectories", COLUMNS, rows)


def small_work(given: argparse.Namespace) -> None:
    """Show which device `auto` should choose where there is little to compute."""
    rows = [[speed(given, kind, network, device) for device in ("cpu", given.device)] for network, kind in LITTLE]
    tables.show("Little to compute", COLUMNS, [row for pair in rows for row in pair])
    told = [
        (f"{network}, {kind}", recommended(*(row[2] for row in pair)))
        for (network, kind), pair in zip(LITTLE, rows, strict=True)
    ]
    tables.show("What auto should do", ("network, exchange", "optimizer.device"), told)


def recommended(cpu: float, gpu: float) -> str:
    """Return the recommendation in words, from the frames a second on both."""
    ratio = gpu / max(cpu, 1e-9)
    return f"take the {'GPU' if ratio >= WORTH else 'CPU'} (the GPU learns from {ratio:.2f} times the frames)"


def several(given: argparse.Namespace) -> None:
    """Compare one device with all of them."""
    if "," not in given.devices:
        return
    first = given.devices.partition(",")[0]
    actors = argparse.Namespace(**vars(given) | {"actors": given.actors * (given.devices.count(",") + 1)})
    rows = [speed(actors, "trajectories", network, device) for network in NETWORKS for device in (first, given.devices)]
    tables.show("Several devices", COLUMNS, rows)
    times = [(row[0], row[2] / max(one[2], 1e-9)) for one, row in zip(rows[::2], rows[1::2], strict=True)]
    tables.show("What they bring", ("learner", "times the frames of one"), times)


def lstm(given: argparse.Namespace) -> None:
    ours, theirs = lstm_times(torch.device(given.device))
    tables.show(
        "An LSTM of 128 units, 21 steps of 256 environments, forward and backward, ms",
        ("ours, with resets", "torch's (cuDNN on a GPU), without", "ratio"),
        [(1e3 * ours, 1e3 * theirs, ours / theirs)],
    )


def graphs(given: argparse.Namespace) -> None:
    rows = [
        (network, used, launches(network, given.device, given.copies, setting))
        for network, (used, setting) in product(("dense", *NETWORKS), choices(given))
    ]
    tables.show(
        f"A step on {given.copies} environments, without and with CUDA graphs",
        ("network", "graphs", "kernels", "host ms", "whole ms", "kernels' ms"),
        [(network, used, one.kernels, 1e3 * one.host, 1e3 * one.whole, kernel_ms(one)) for network, used, one in rows],
    )


def choices(given: argparse.Namespace) -> list[tuple[str, str]]:
    """Return whether CUDA graphs are used, in a word, with the setting for it: for each way to be compared."""
    both = [("no", "optimizer.cuda_graphs=false"), ("yes", "optimizer.cuda_graphs=true")]
    return both[:1] if given.device == "cpu" else both


def kernel_ms(one: Launches) -> float | None:
    return None if one.busy is None else 1e3 * one.busy


PARTS: tuple[Callable[[argparse.Namespace], None], ...] = (
    agreement, speeds, small_work, lstm, graphs, several, ways,
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--devices", help="several, as optimizer.device names them")
    parser.add_argument("--actors", type=int, default=16)
    parser.add_argument("--copies", type=int, default=16, help="environments of each actor")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--minutes", type=float, default=7.0, help="no part begins later than this")
    given = parser.parse_args()
    if given.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(f"no CUDA device here (torch {torch.__version__}): --device cpu runs the same, in small")
    if given.device == "cpu":
        given.actors, given.copies, given.seconds, given.warm_up = 2, 4, min(given.seconds, 1.0), 0.2
    given.devices = given.devices or ",".join(f"cuda:{number}" for number in range(torch.cuda.device_count()))
    set_arithmetic(threads=1)
    tables.machine()
    if given.device != "cpu":
        print(torch.cuda.get_device_name(given.device))
    if failed := run(given, time.monotonic() + 60 * given.minutes):
        sys.exit("; ".join(failed))


def run(given: argparse.Namespace, until: float) -> list[str]:
    """Run every part, even after another has failed; return the failures."""
    failed = []
    for part in PARTS:
        try:
            if time.monotonic() > until:
                raise TimeoutError(f"not begun after {given.minutes:g} minutes")
            part(given)
        except Exception as error:  # of any kind, because the other parts' figures are still wanted
            text = f"{part.__name__}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            tables.show("Failed", ("part",), [(text,)])
            failed.append(text)
    return failed


if __name__ == "__main__":
    main()
