"""The robust sum with ten actors on CartPole-v1, of which one flips its gradients' sign and one sends huge gradients.

    python -m benchmarks poison [--seeds 0,1,2] [--actors 10] [--num-envs 8] [--frames 600000]

Runs with and without the bad actors, each with and without exchange.robust = "agreement", show: frames until the mean
return is 475 ("-": not within --frames), the best mean return, and the actors that `status` named. The daemons are real
processes over TCP.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.runs import Command, free_port
from common.errors import A3cdError
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.run import presets
from common.settings.toml import dump, override
from deploy.cli import observer

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
    columns = ("bad actors", "robust", "seed", "frames to 475", "best mean", "named")
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
        address = Address("127.0.0.1", free_port())
        config = folder / "run.toml"
        assigned = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
        config.write_text(dump(override(presets.show("CartPole-v1").settings(), assigned)), encoding="utf-8")
        words = ("learner", "--config", str(config), "--run-dir", str(folder / "run"), "--bind", str(address))
        learner = stack.enter_context(Command(*words))
        names = list(FACTORS) if bad else []
        names += [f"honest-{number}" for number in range(options.actors - len(names))]
        named = train(learner, address, names)
        summary = json.loads((folder / "run" / "summary.json").read_bytes())
    frames = summary["frames"] if summary["reached"] else "-"
    best = summary["best_return"]
    return (
        "flipper, giant" if bad else "none", robust, seed, frames, "-" if best is None else round(best),
        ", ".join(sorted(named)) or "-",
    )  # fmt: skip


def train(learner: Command, address: Address, names: Sequence[str]) -> set[str]:
    """Run an actor of each name until the learner ends; return the names that its status has reported."""
    named: set[str] = set()
    deadline = time.monotonic() + LIMIT_SECONDS
    with ExitStack() as stack:
        actors = {name: stack.enter_context(_actor(name, address)) for name in names}
        while not learner.succeeded():
            if time.monotonic() > deadline:
                learner.process.terminate()
                learner.process.wait(30)
                break
            time.sleep(1.0)
            named |= _named(address)
            for name, actor in actors.items():
                if actor.process.poll() not in (None, 0) and learner.process.poll() is None:  # as a launcher
                    actors[name] = stack.enter_context(_actor(name, address))
    return named


def _actor(name: str, address: Address) -> Command:
    words = ("actor", str(address), "--name", name)
    return Command(*words, program=(str(BAD), str(FACTORS[name]))) if name in FACTORS else Command(*words)


def _named(address: Address) -> set[str]:
    """Return the names of the actors that the status reports now."""
    try:
        status = observer.fetch(LearnerEndpoint(address), 5.0, lambda _: None)
    except A3cdError:
        return set()
    return {text.partition(":")[0] for text in status.health} | {one.name for one in status.quarantined}


if __name__ == "__main__":
    main()
