"""Time from the command to the first gradient, and from the goal to the prompt: `python -m benchmarks start`.

    python -m benchmarks start [--runs 5] [--seed 0]

Each figure is the median over --runs. The moments of `a3cd train CartPole-v1 --seed S` are seconds since the command,
as seen by an observer that reads its output and subscribes to its weights: the first new weights go out with the first
applied gradient. Each import is measured in a new Python, whose start is included.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zmq

from benchmarks import tables
from benchmarks.runs import Command, RunFailedError, Training, free_port
from common.host.addresses import Address
from common.run import presets
from common.wire import sockets
from common.wire.bodies.broadcast import Broadcast

LIMIT_SECONDS = 120.0
A3CD = ("-P", "-m", "a3cd")
COMMANDS = (("--help",), ("actor", "--help"), ("train", "--help"), ("presets",))
MODULES = ("a3cd", "deploy.cli.supervising", "deploy.launcher.shell", "actor.daemon", "learner.daemon", "learner.build")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    tables.machine()
    runs = [training(given.seed) for _ in range(given.runs)]
    moments = {name: tables.median(run[name] for run in runs) for name in runs[0]}
    tables.show(f"a3cd train CartPole-v1, median of {given.runs}", ("", "seconds"), list(moments.items()))
    programs = {f"a3cd {' '.join(words)}": (*A3CD, *words) for words in COMMANDS}
    programs |= {f"import {module}": ("-P", "-c", f"import {module}") for module in MODULES}
    with learner() as address:
        programs["a3cd status, of a learner that is there"] = (*A3CD, "status", str(address))
        # One after another in each round, so that a busy moment of the machine affects all of them.
        rounds = [{name: seconds(words) for name, words in programs.items()} for _ in range(given.runs)]
    others = {name: tables.median(one[name] for one in rounds) for name in programs}
    tables.show(f"commands and imports, median of {given.runs}", ("", "seconds"), list(others.items()))


def training(seed: int) -> dict[str, float]:
    """Return the moments of one run, in seconds since its command; raises RunFailedError."""
    with Training("CartPole-v1", "--seed", str(seed), label=f"seed {seed}") as run:
        listens = line(run.command, "listens on tcp://")
        first = first_weights(Address.parse(run.command.lines[listens].partition(" listens on ")[2].partition(": ")[0]))
        result = run.finish(LIMIT_SECONDS)
        goal = result.rows[-1]["time"]  # reaching the goal ends the run, and the last row is written at its end
        moments = {
            "the learner listens": run.command.read_at[listens],
            "an actor is welcome": run.command.read_at[line(run.command, "joined (by ")],
            "the first gradient is applied": first,
            "the goal": goal,
            "the prompt": result.started + result.seconds,
        }
    return {name: moment - result.started for name, moment in moments.items()} | {
        "from the goal to the prompt": result.started + result.seconds - goal
    }


def line(command: Command, text: str) -> int:
    """Wait for a line with this text, and return its number; raises RunFailedError."""
    until = time.monotonic() + LIMIT_SECONDS
    while True:
        over = command.succeeded() or time.monotonic() > until
        for number, said in enumerate(list(command.lines)):
            if text in said:
                return number
        if over:
            command.fail(f"it did not say {text!r}")
        time.sleep(0.002)


def first_weights(address: Address) -> float:
    """Return when the learner at `address` first published weights after a gradient, in seconds since 1970."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    subscriber = sockets.subscriber(context, str(address.with_port(address.port + 1)), 2**30)
    try:
        while subscriber.poll(int(1e3 * LIMIT_SECONDS)):
            if Broadcast.unpack(subscriber.recv()).version > 0:
                return time.time()
        raise RunFailedError(f"the learner at {address} published nothing in {LIMIT_SECONDS:g} s")
    finally:
        subscriber.close(linger=0)
        context.term()


@contextmanager
def learner() -> Iterator[Address]:
    """Run a learner that waits for actors; yield its address."""
    address = Address("127.0.0.1", free_port())
    with tempfile.TemporaryDirectory(prefix="a3cd-benchmark-") as folder:
        config = Path(folder, "run.toml")
        config.write_text(presets.show("CartPole-v1").text, encoding="utf-8")
        words = ("--config", str(config), "--bind", str(address), "--run-dir", f"{folder}/run")
        with Command("learner", *words) as command:
            line(command, "listens on tcp://")
            yield address


def seconds(words: tuple[str, ...]) -> float:
    """Return the seconds from start to end of `python WORDS`; raises CalledProcessError if it fails."""
    begun = time.monotonic()
    subprocess.run([sys.executable, *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


if __name__ == "__main__":
    main()
