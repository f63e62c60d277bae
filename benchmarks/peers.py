"""Other reinforcement learning libraries on the same two cores (one under taskset), each with published settings.

    python -m benchmarks peers [--peers a3cd,stable-baselines3] [--environments CartPole-v1,FlappyBird-v0,ALE/Pong-v5]
                               [--seeds 0,1,2,3,4] [--seconds 60] [--episodes 20] [--cache FOLDER]

Each peer is installed once, by pip, into its own virtual environment below the cache, with the release of torch that is
installed here. A driver (benchmarks/peer_drivers) trains with it in its own process; the driver states the settings and
who published them. For each seed the peers run one after another.

"to the goal" is the time until the mean return of 100 training episodes is 475 in CartPole-v1, which ends a run; other
runs end after --seconds of training. "start" is the time from the command to the first frame. Frames are steps of the
agent (in Pong four frames of the game). "return" is the mean return of --episodes episodes (20, or 3 in Pong) played
with the last weights and the most likely actions.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.peer_drivers.driver import Order
from benchmarks.runs import RunFailedError, Training, evaluate
from benchmarks.tables import ROOT, Cell

OURS = "a3cd"
CORES = 2
"""Most cores that a run may use."""
DRIVERS = Path(__file__).with_name("peer_drivers")
STARTING_SECONDS = 120.0
PLAYING_SECONDS = 60.0
"""Longest start (STARTING_SECONDS) and longest episode of an evaluation (PLAYING_SECONDS) on a busy machine."""


@dataclass(frozen=True)
class Peer:
    requirements: tuple[str, ...]
    """Packages for pip to install."""
    driver: str
    """Name of the driver's file in benchmarks/peer_drivers."""
    threads: Mapping[str, int] = field(default_factory=dict)
    """Threads of torch in each of its processes, by environment; 1 where none is given."""

    def threads_on(self, cores: int, environment: str) -> int:
        """Return the threads of each of its processes: no more than there are cores."""
        return min(self.threads.get(environment, 1), cores)


PEERS = {
    "stable-baselines3": Peer(
        ("stable-baselines3", "ale-py", "flappy-bird-gymnasium", "opencv-python-headless"),
        "stable_baselines3_ppo.py",
        {"ALE/Pong-v5": 2},  # it is a single process; in other games layers of 64 units are too small for two threads
    ),
    "sample-factory": Peer(
        ("sample-factory", "gymnasium<1", "ale-py<0.10", "flappy-bird-gymnasium"),
        "sample_factory_appo.py",
    ),
    "tianshou": Peer(
        ("tianshou", "numpy<2.3", "ale-py", "flappy-bird-gymnasium", "opencv-python-headless"),
        "tianshou_ppo.py",
        {"ALE/Pong-v5": 2},
    ),
}


@dataclass(frozen=True)
class Task:
    """A goal of training, and the evaluation afterwards."""

    goal: float
    """Mean training return that ends a run; infinity: no return does."""
    episodes: int
    """Number of episodes to play at the end, unless --episodes says another."""


TASKS = {"CartPole-v1": Task(475.0, 20), "FlappyBird-v0": Task(math.inf, 20), "ALE/Pong-v5": Task(math.inf, 3)}


@dataclass(frozen=True)
class Run:
    """The result of one run of a peer."""

    start: float
    """Seconds from the command to the first frame."""
    seconds: float
    """Seconds from the first frame to the goal, or to the end of training."""
    frames: int
    reached: bool
    training_return: float | None
    played: float | None
    """Mean return of the trained agent."""
    versions: Mapping[str, str]

    def figures(self) -> tuple[float | None, ...]:
        """Return the values of FIGURES."""
        goal = self.seconds if self.reached else None
        whole = self.start + self.seconds if self.reached else None
        return whole, goal, self.start, self.frames / self.seconds, self.training_return, self.played


FIGURES = ("to the goal with start", "to the goal", "start", "frames/s", "training return", "return")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=",".join((OURS, *PEERS)))
    parser.add_argument("--environments", default=",".join(TASKS))
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--seconds", type=float, default=60.0, help="of training, at most")
    parser.add_argument("--episodes", type=int, help="to play with the last weights (20; 3 in Pong)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where peers are installed (%(default)s)")
    given = parser.parse_args()
    names, environments = given.peers.split(","), given.environments.split(",")
    seeds = [int(seed) for seed in given.seeds.split(",")]
    unknown = [*(set(names) - {OURS, *PEERS}), *(set(environments) - set(TASKS))]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; peers are {OURS}, {', '.join(PEERS)}; games are {', '.join(TASKS)}")
    pythons = {name: Path(sys.executable) if name == OURS else install(name, given.cache) for name in names}
    cores = restrict_cores()
    tables.machine()
    runs: dict[tuple[str, str], list[Run | None]] = {(task, name): [] for task in environments for name in names}
    for task in environments:
        episodes = given.episodes or TASKS[task].episodes
        for seed in seeds:
            order = Order(task, seed, given.seconds, TASKS[task].goal, episodes)
            for name in names:
                runs[task, name].append(attempt(name, pythons[name], order, cores))
    show(runs, seeds, given.seconds, cores)


def default_cache() -> Path:
    """Return a folder in the user's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "a3cd-peers"


def restrict_cores() -> int:
    """Restrict this process, and all that it starts, to CORES cores, or to the fewer it may use; return how many."""
    if not hasattr(os, "sched_setaffinity"):
        return CORES
    mine = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, mine)
    return len(mine)


def attempt(name: str, python: Path, order: Order, cores: int) -> Run | None:
    """Run a peer and report on stderr; return its result, or None if it failed."""
    title = f"{name}, {order.environment}, seed {order.seed}"
    try:
        run = ours(order) if name == OURS else drive(PEERS[name], python, order, cores)
    except RunFailedError as error:
        print(f"{title}: {error}", file=sys.stderr, flush=True)
        return None
    shown = zip(FIGURES, run.figures(), strict=True)
    said = ", ".join(f"{what} {figure:.4g}" for what, figure in shown if figure is not None)
    print(f"{title}: {said}", file=sys.stderr, flush=True)
    return run


def ours(order: Order) -> Run:
    """Run a3cd: a learner and two actors with the environment's preset."""
    settings = {"limits.until_return": order.goal if math.isfinite(order.goal) else 1e9}
    arguments = ("--actors", "2", "--seed", str(order.seed), "--seconds", str(order.seconds))
    label = f"{OURS}, seed {order.seed}"
    with Training(order.environment, *arguments, label=label, settings=settings) as training:
        result = training.finish(order.seconds + STARTING_SECONDS)
        played = evaluate(training.folder, order.episodes, newest=True)
    last = result.rows[-1]
    began = last["time"] - last["seconds"]
    versions = {one: version(one) for one in (OURS, "torch", "gymnasium", "numpy")}
    return Run(
        start=began - result.started,
        seconds=last["seconds"],
        frames=last["frames"],
        reached=result.summary["reached"],
        training_return=last["mean_return"],
        played=played["mean"],
        versions={"python": sys.version.split()[0], **versions},
    )


def drive(peer: Peer, python: Path, order: Order, cores: int) -> Run:
    """Run a peer, with its own number of threads; raises RunFailedError."""
    order = replace(order, threads=peer.threads_on(cores, order.environment))
    words = (f"--{name}={value}" for name, value in asdict(order).items())
    # -P: do not import modules from the script's folder.
    command = (str(python), "-P", str(DRIVERS / peer.driver), *words)
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(order.threads)}
    started = time.time()
    said = output(command, surroundings, order.seconds + STARTING_SECONDS + order.episodes * PLAYING_SECONDS)
    return read(said, started)


def output(command: Sequence[str], surroundings: Mapping[str, str], limit: float) -> str:
    """Run a command and return what it printed; raises RunFailedError if it fails or takes over `limit` seconds.

    Processes that it has started end with it.
    """
    with subprocess.Popen(
        command,
        env=dict(surroundings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            printed, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired as error:
            raise RunFailedError(f"did not end within {limit:.0f} s") from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise RunFailedError(f"exit code {process.returncode}\n  " + "\n  ".join(errors.splitlines()[-10:]))
    return printed


def read(said: str, started: float) -> Run:
    """Return the result in a driver's last line; raises RunFailedError. started: its start in seconds since 1970."""
    try:
        result: dict[str, Any] = json.loads(said.splitlines()[-1])
        return Run(
            start=result["began"] - started,
            seconds=result["ended"] - result["began"],
            frames=result["frames"],
            reached=result["reached"],
            training_return=result["training_return"],
            played=result["return"],
            versions=result["versions"],
        )
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise RunFailedError(f"its last line is no result: {said[-200:]!r}") from error


def install(name: str, cache: Path) -> Path:
    """Return the peer's interpreter, after installing the peer if need be; exits if pip fails."""
    folder = cache / name
    python, stamp = folder / "bin" / "python", folder / "installed.json"
    wanted = {"requirements": list(PEERS[name].requirements), "constraints": constraints(), "python": sys.version}
    if stamp.exists() and json.loads(stamp.read_text(encoding="utf-8")) == wanted:
        return python
    print(f"installing {name} into {folder}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    file = folder / "constraints.txt"
    file.write_text("\n".join(constraints()) + "\n", encoding="utf-8")
    pip = (str(python), "-m", "pip", "install", "--quiet", "--constraint", str(file))
    done = subprocess.run([*pip, *PEERS[name].requirements], check=False)
    if done.returncode:
        sys.exit(f"pip could not install {name}; --peers leaves it out")
    stamp.write_text(json.dumps(wanted), encoding="utf-8")
    return python


def constraints() -> list[str]:
    """Return a constraint on torch's release that runs here (of any build), so that all peers use the same torch."""
    return [f"torch=={version('torch').partition('+')[0]}"]


def show(
    runs: Mapping[tuple[str, str], Sequence[Run | None]], seeds: Sequence[int], seconds: float, cores: int
) -> None:
    every: list[tuple[Cell, ...]] = []
    medians: list[tuple[Cell, ...]] = []
    versions: dict[str, str] = {}
    for (task, name), found in runs.items():
        well = [run for run in found if run is not None]
        blank = (None,) * len(FIGURES)
        for seed, run in zip(seeds, found, strict=True):
            every.append((task, name, f"seed {seed}", *(run.figures() if run else blank)))
        columns = zip(*(run.figures() for run in well), strict=True) if well else ((),) * len(FIGURES)
        reached = f"{sum(run.reached for run in well)}/{len(found)}" if math.isfinite(TASKS[task].goal) else "-"
        threads = str(PEERS[name].threads_on(cores, task)) if name in PEERS else "1"
        medians.append((task, name, threads, f"{len(well)}/{len(found)}", reached, *map(tables.median, columns)))
        for run in well:
            versions[name] = ", ".join(f"{one} {number}" for one, number in run.versions.items())
    tables.show("Versions", ("peer", "with"), list(versions.items()))
    tables.show("Runs", ("environment", "peer", "", *FIGURES), every)
    title = f"Medians on {cores} of the machine's cores, {seconds:g} s of training at most"
    tables.show(title, ("environment", "peer", "threads", "ended well", "reached", *FIGURES), medians)


if __name__ == "__main__":
    main()
