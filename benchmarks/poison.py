"""Ten actors on CartPole-v1, of which one flips the sign of its gradients and one sends huge ones: with the robust sum.

    python benchmarks/poison.py [--seeds 0,1,2] [--actors 10] [--num-envs 8] [--frames 600000]

Honest actors and bad ones, each with and without exchange.robust = "agreement": frames until the mean return is 475
("-": not within --frames), whom `status` named, and microseconds of the learner's thread per gradient. The processes
are real ones over TCP.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import tables

A3CD = (sys.executable, "-m", "a3cd")
BAD = Path(__file__).with_name("bad_actor.py")
FACTORS = {"flipper": -1.0, "giant": 1000.0}
LIMIT_SECONDS = 900.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--actors", type=int, default=10)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--frames", type=int, default=600_000)
    options = parser.parse_args()
    tables.machine()
    rows = []
    for bad in (True, False):
        for robust in ("agreement", "none"):
            for seed in map(int, options.seeds.split(",")):
                rows.append(run(seed, bad, robust, options))
                print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
    columns = ("bad actors", "robust", "seed", "frames to 475", "best mean", "named", "learner us/gradient")
    tables.show(f"{options.actors} actors x {options.num_envs} environments", columns, rows)


def run(seed: int, bad: bool, robust: str, options: Any) -> tuple[tables.Cell, ...]:
    settings = {
        "exchange.kind": "gradients",
        "exchange.robust": robust,
        "environment.num_envs": options.num_envs,
        "limits.frames": options.frames,
        "seed": seed,
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="a3cd-poison-")))
        address = f"tcp://127.0.0.1:{_free_port()}"
        config = folder / "run.toml"
        config.write_text(subprocess.check_output([*A3CD, "presets", "show", "CartPole-v1"], text=True))
        changes = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        command = (*A3CD, "learner", "--config", str(config), "--run-dir", str(folder / "run"), "--bind", address)
        learner = _start(stack, [*command, *changes])
        names = list(FACTORS) if bad else []
        names += [f"honest-{number}" for number in range(options.actors - len(names))]
        actors = [_start(stack, _actor(name, address)) for name in names]
        named: set[str] = set()
        deadline = time.monotonic() + LIMIT_SECONDS
        while learner.poll() is None and time.monotonic() < deadline:
            time.sleep(1.0)
            named |= _named(address)
            for place, actor in enumerate(actors):
                if actor.poll() not in (None, 0) and learner.poll() is None:  # as its launcher would
                    actors[place] = _start(stack, _actor(names[place], address))
        if learner.poll() is None:
            learner.terminate()
        learner.wait(30)
        summary = json.loads((folder / "run" / "summary.json").read_bytes())
    frames = summary["frames"] if summary["reached"] else "-"
    microseconds = (
        1e6 * summary["learner_busy"] * summary["seconds"] / max(1, summary["gradients"] + summary["refused"])
    )
    best = summary["best_return"]
    return (
        "flipper, giant" if bad else "none", robust, seed, frames, "-" if best is None else round(best),
        ", ".join(sorted(named)) or "-", round(microseconds),
    )  # fmt: skip


def _actor(name: str, address: str) -> list[str]:
    start = [sys.executable, str(BAD), str(FACTORS[name])] if name in FACTORS else list(A3CD)
    return [*start, "actor", address, "--name", name]


def _named(address: str) -> set[str]:
    """Whom the status names now."""
    asked = subprocess.run([*A3CD, "status", address, "--json"], capture_output=True, check=False, timeout=60)
    if asked.returncode:
        return set()
    status = json.loads(asked.stdout)
    return {text.partition(":")[0] for text in status["health"]} | {one["name"] for one in status["quarantined"]}


def _start(stack: ExitStack, command: list[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end() -> None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)
    return process


def _free_port() -> int:
    """Of two free ones in a row, most likely."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


if __name__ == "__main__":
    main()
