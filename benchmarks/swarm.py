"""Throughput of one learner: gradients of many synthetic actors over the real wire.

    python -m benchmarks swarm [--actors 10] [--rate 0] [--network dense] [--codec none] [--seconds 10]
        [--against FOLDER [--turns 3]]

One process holds all actors. Each joins as an actor does, subscribes to the weights, sends heartbeats in time, and
sends a gradient whenever its credit allows (--rate: at most that many a second): always the same few packed gradients,
as if computed with the newest weights received. They are of usual norm, so that none is refused. The learner is another
process; with two cores or more, learner and actors have one core each.

"us per gradient" is the learner's processor time, all threads; it depends less than the rates on the machine's other
work. "ack ms" is the time from sending a gradient to its acknowledgement; lag is in optimizer steps, over the last 1024
gradients. With --against (benchmarks/against.py) the learner of another checkout is measured in turn, and figures are
medians. It gets only the settings that differ from the defaults here, because it may not know all, so its own defaults
hold for the others.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from benchmarks import against, tables
from benchmarks.runs import Command, free_port, spent
from benchmarks.synthetic_actors import Swarm
from benchmarks.tables import Cell
from common.host.addresses import Address
from common.run import presets
from common.settings.codec_names import NAMES, PARTS
from common.settings.sections import Settings
from common.settings.toml import dump_changed, override
from common.wire.codecs.registry import make

NETWORKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "dense": ("FlappyBird-v0", ()),
    "conv": ("ALE/Pong-v5", ()),
    "big": ("CartPole-v1", ("network.hidden=[4450,4450]",)),
}
"""Presets and settings that differ from them; the networks have 18,563, 677,943 and 19,842,553 parameters."""
WARM_UP_SECONDS = 2.0
BODIES = 4
"""Number of different gradients: noise, each with its negative, so that the weights hardly move."""


def bodies(codec: str, size: int, norm: float) -> list[bytes]:
    """Return packed gradients of noise with this norm."""
    generator = np.random.default_rng(0)
    packing = make(codec, size)
    packed = []
    for _ in range(BODIES // 2):
        noise = generator.standard_normal(size, np.float32)
        noise *= norm / float(np.linalg.norm(noise))
        packed += [packing.encode(sign * noise) for sign in (1, -1)]
    return packed


def measure(given: argparse.Namespace, address: Address, learner: psutil.Process, settings: Settings) -> dict[str, Any]:
    swarm = Swarm(address, given.actors, given.codec, given.rate)
    torch.set_num_threads(1)
    try:
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > 1:
            pin(learner.pid, cores[0])
            pin(os.getpid(), cores[1])
        parameters = swarm.status()["parameters"]
        norm = 0.9 * settings.algorithm.max_grad_norm or 0.5
        packed = bodies(given.codec, parameters, norm)
        swarm.join(given.actors)
        swarm.begin(packed, settings)
        swarm.run(WARM_UP_SECONDS)
        before, worked, own, broadcasts = swarm.status(), spent(learner), spent_by_main(learner), swarm.broadcasts
        seconds = swarm.run(given.seconds)
        busy, main, delays = spent(learner) - worked, spent_by_main(learner) - own, swarm.delays
        received = swarm.broadcasts - broadcasts
        after = swarm.status()
        applied, steps = (after[name] - before[name] for name in ("gradients", "version"))
        resources = {"rss_mib": learner.memory_info().rss / 2**20, "descriptors": learner.num_fds()}
    finally:
        swarm.close()
    p50, p95, p99 = np.percentile(delays, [50, 95, 99]) * 1e3
    return {
        "applied_per_second": applied / seconds,
        "steps_per_second": steps / seconds,
        "gradients_per_step": applied / max(1, steps),
        "ack_ms_p50": p50,
        "ack_ms_p95": p95,
        "ack_ms_p99": p99,
        "lag_mean": after["lag_mean"],
        "lag_p95": after["lag_p95"],
        "learner_cpu_percent": 100 * busy / seconds,
        "learner_us_per_gradient": 1e6 * busy / max(1, applied),
        "main_thread_us_per_gradient": 1e6 * main / max(1, applied),
        "broadcasts_per_second": received / given.actors / seconds,
        **resources,
        "parameters": parameters,
        "refused": after["refused"],
        "stale": after["stale"],
        "duplicates": after["duplicates"],
    }


def spent_by_main(process: psutil.Process) -> float:
    """Return the processor seconds of its first thread; a learner's other threads are mostly libzmq's."""
    return next(float(one.user_time + one.system_time) for one in process.threads() if one.id == process.pid)


def pin(pid: int, core: int) -> None:
    """Pin all threads of a process to one core."""
    for thread in psutil.Process(pid).threads():
        os.sched_setaffinity(thread.id, {core})


def run(given: argparse.Namespace, checkout: Path | None) -> dict[str, Any]:
    """Return the figures of a learner of this checkout, or of another."""
    preset, changed = NETWORKS[given.network]
    kind, stage = PARTS[given.codec]
    assigned = [*changed, f"exchange.codec={kind}", f"exchange.entropy_coder={stage}", "exchange.kind=gradients"]
    assigned += ["limits.until_return=1e9", "limits.seconds=0", "limits.frames=0", "checkpoint.every_seconds=0"]
    assigned += ["scaling.policy=fixed", f"scaling.minimum={given.actors}", f"scaling.maximum={given.actors}"]
    assigned += ["optimizer.anneal=constant", *given.set]
    settings = override(presets.show(preset).settings(), assigned)
    address = Address("127.0.0.1", free_port())
    with tempfile.TemporaryDirectory(prefix="a3cd-swarm-") as folder:
        config = Path(folder) / "run.toml"
        config.write_text(dump_changed(settings), encoding="utf-8")  # an older checkout refuses newer keys
        program = ("-P", "-m", "deploy.cli.command")
        if given.step_seconds:
            program = ("-P", str(Path(__file__).with_name("slow_learner.py")), str(given.step_seconds))
        words = ("learner", "--bind", str(address), "--config", str(config), "--run-dir", f"{folder}/run")
        with Command(*words, program=program, checkout=checkout) as learner:
            try:
                return measure(given, address, learner.process, settings)
            except SystemExit as error:
                learner.fail(str(error))
                raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.0, help="gradients a second of each actor; 0: as credit allows")
    parser.add_argument("--network", choices=NETWORKS, default="dense")
    parser.add_argument("--codec", choices=NAMES, default="none")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="least duration of an optimizer step")
    against.add_option(parser)
    parser.add_argument("--turns", type=int, default=1, help="so often each is measured")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    tables.machine()
    other = against.checkout(given)
    sides = [None] if other is None else [None, other]
    turns = [[run(given, side) for side in sides] for _ in range(given.turns)]
    speed = f"{given.rate:g} a second each" if given.rate else "as fast as credit allows"
    title = f"{given.network}, {given.codec}, {given.actors} actors, {speed}"
    columns = ("now",) if other is None else ("now", "before", "now / before")
    tables.show(title, ("", *columns), rows([medians(side) for side in zip(*turns, strict=True)]))


def medians(measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of each figure over all turns of a side."""
    return {name: tables.median(one[name] for one in measured) for name in measured[0]}


def rows(sides: Sequence[dict[str, Any]]) -> list[tuple[Cell, ...]]:
    """Return a row for each figure: its value now and, if there is another side, the value before and the ratio."""
    found: list[tuple[Cell, ...]] = []
    for name in sides[0]:
        values = [side[name] for side in sides]
        ratio = () if len(values) == 1 else (against.ratio(*values),)
        found.append((name.replace("_", " "), *values, *ratio))
    return found


if __name__ == "__main__":
    main()
