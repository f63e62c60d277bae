"""One factor at a time, from an exchange without limits to a3cd's: frames until a score, for several numbers of actors.

    python -m benchmarks factors [--environments CartPole-v1,FlappyBird-v0] [--optimizers adam,rmsprop]
                                 [--rates 0.001,0.0025] [--actors 4,10,20,40] [--capacity N] [--delay SECONDS]
                                 [--seeds 0,1,2,3,4] [--only NAME,...] [--folder FOLDER] [--jobs N]

Simulated, on a virtual clock. "without limits" is the experiment that a3cd grew out of: gradients wait in an unbounded
queue and are applied one by one, however old they are. Rows "+ x" add one of a3cd's rules to it, rows "- x" leave one
out of a3cd's exchange ("ours"), and rows "with x" use another rule against staleness. A rule may need another learning
rate, so each row shows the one of --rates that suits it best.
Each actor has one environment, in which a rollout of 16 steps takes about 0.16 s; hosts differ in speed. An optimizer
step takes a tenth of that, so that the learner keeps up with ten actors, or with --capacity actors. --delay is the
latency of each message.

Cells: thousands of frames until the mean return of 100 episodes reaches the score (median over the seeds; "-": half of
them or more did not reach it within the budget of frames), episodes, virtual seconds, and the learning rate. A second
table has those that did not: mean return and lag at the end (medians), at the rate with the highest return.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import msgspec

from benchmarks import tables
from benchmarks.simulations import Case, Outcome, add_options, best_end, best_rate, grouped, run_all
from common.run import presets
from common.settings.toml import replace_at
from simulation.settings import Costs, Host, Link, Simulation

STEP_SECONDS = 0.01
ROLLOUT = 16
PLAYING = Costs(
    batch_step=STEP_SECONDS,
    environment_step=0.0,
    gradient=0.0,
    gradient_step=0.0,
    message=0.0,
    message_mib=0.0,
)
HOSTS = [Host(name=f"host{number}", slots=5, speed=0.86 + 0.04 * number) for number in range(8)]
COMMON: dict[str, Any] = {
    "environment.num_envs": 1,
    "algorithm.rollout_length": ROLLOUT,
    "exchange.kind": "gradients",
    "optimizer.anneal": "constant",
    "limits.seconds": 0.0,
}
GOALS = {"CartPole-v1": (300.0, 150_000), "FlappyBird-v0": (8.0, 800_000)}
"""For each environment: the score, and the frames within which it must be reached. FlappyBird's 8: most flights pass
one pipe."""
OWN: dict[str, dict[str, Any]] = {"CartPole-v1": {}, "FlappyBird-v0": {"network.hidden": [128]}}
"""For each environment, what differs from its preset. FlappyBird's: the network of the original experiment, whose
gradients fit into memory by tens of thousands."""
WITHOUT: dict[str, dict[str, Any]] = {
    "credit": {"exchange.credit": 0, "exchange.accumulate": 1},
    "accumulate": {"exchange.accumulate": 1},
    "coalesce": {"exchange.coalesce": 1},
    "refresh": {"algorithm.refresh": False, "algorithm.correction": "none"},
    "V-trace": {"algorithm.correction": "none"},
    "step scaling": {"staleness.scale": "none"},
    "limit on lag": {"staleness.refuse_factor": 0.0},
    "no momentum": {"optimizer.beta1": 0.9},
}
"""Settings that leave one rule out. Without credit nothing is accumulated, and without refresh there is no V-trace,
because it corrects refreshed rollouts."""
OURS: dict[str, Any] = {
    "exchange.credit": 1,
    "exchange.accumulate": 4,
    "exchange.coalesce": 16,
    "algorithm.refresh": True,
    "algorithm.correction": "vtrace",
    "staleness.scale": "inverse-sqrt",
    "staleness.refuse_factor": 4.0,
    "optimizer.beta1": None,
}
UNLIMITED = {key: value for rule in WITHOUT.values() for key, value in rule.items()}
ADDED = {
    "credit": ("exchange.credit",),
    "credit and accumulate": ("exchange.credit", "exchange.accumulate"),
    "coalesce": ("exchange.coalesce",),
    "refresh": ("algorithm.refresh",),
    "refresh and V-trace": ("algorithm.refresh", "algorithm.correction"),
    "step scaling": ("staleness.scale",),
    "limit on lag": ("staleness.refuse_factor",),
    "no momentum": ("optimizer.beta1",),
}
INSTEAD: dict[str, dict[str, Any]] = {
    "step by 1/(1 + lag)": {"staleness.scale": "inverse"},
    "a lag of 4 at most": {"staleness.drop_above": 4},
    "delay compensation": WITHOUT["refresh"] | WITHOUT["accumulate"] | {"staleness.policy": "compensate"},
    "all wait for all": {"staleness.policy": "synchronous"},
}
EXCHANGES: dict[str, dict[str, Any]] = {
    "without limits": UNLIMITED,
    **{f"+ {name}": UNLIMITED | {key: OURS[key] for key in keys} for name, keys in ADDED.items()},
    "ours": OURS,
    **{f"- {name}": OURS | without for name, without in WITHOUT.items()},
    **{f"with {name}": OURS | other for name, other in INSTEAD.items()},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", default="CartPole-v1")
    parser.add_argument("--optimizers", default="adam,rmsprop")
    parser.add_argument("--rates", default="0.001,0.0025", help="learning rates")
    parser.add_argument("--actors", default="4,10,20,40")
    parser.add_argument("--capacity", type=int, default=10, help="actors that the learner keeps up with")
    parser.add_argument("--delay", type=float, default=0.0, help="of each message, in seconds")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--only", default="", help="rows, instead of all")
    add_options(parser, "runs/factors")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(EXCHANGES)
    actors = [int(count) for count in arguments.actors.split(",")]
    tables.machine()
    for environment in arguments.environments.split(","):
        for optimizer in arguments.optimizers.split(","):
            cases = [
                case(environment, optimizer, name, count, rate, seed, world(arguments.capacity, arguments.delay))
                for name in names
                for count in actors
                for rate in map(float, arguments.rates.split(","))
                for seed in map(int, arguments.seeds.split(","))
            ]
            rows = grouped(run_all(cases, arguments.folder, arguments.jobs, each=8))
            show(f"{environment}, {optimizer}, a learner for {arguments.capacity} actors", environment, rows, actors)


def world(capacity: int, delay: float) -> Simulation:
    costs = msgspec.structs.replace(PLAYING, optimizer_step=ROLLOUT * STEP_SECONDS / capacity)
    if not delay:
        return Simulation(costs=costs, hosts=HOSTS)
    far = [msgspec.structs.replace(host, local=False, link=Link(delay=delay)) for host in HOSTS]
    return Simulation(costs=costs, hosts=far)


def case(
    environment: str, optimizer: str, name: str, actors: int, rate: float, seed: int, simulation: Simulation
) -> Case:
    score, frames = GOALS[environment]
    own = {
        "seed": seed,
        "optimizer.kind": optimizer,
        "optimizer.learning_rate": rate,
        "scaling.minimum": actors,
        "scaling.maximum": actors,
        "limits.frames": frames,
        "limits.until_return": score,
    }
    settings = presets.for_environment(environment)
    settings = replace_at(settings, COMMON | OWN[environment] | EXCHANGES[name] | own)
    return Case(f"{name}, {actors}, {rate:g}", settings, simulation)


def show(title: str, environment: str, rows: dict[str, list[Outcome]], actors: Sequence[int]) -> None:
    score, frames = GOALS[environment]
    names = dict.fromkeys(name.rsplit(", ", 2)[0] for name in rows)
    columns = [f"{count} actors: {what}" for count in actors for what in ("k frames", "episodes", "s", "rate")]
    lines = [
        (name, *(cell for count in actors for cell in best_rate(rows, f"{name}, {count}", score))) for name in names
    ]
    tables.show(f"{title}, to {score:g}", ("", *columns), lines)
    short = {name: [cell for count in actors for cell in best_end(rows, f"{name}, {count}", score)] for name in names}
    columns = [f"{count} actors: {what}" for count in actors for what in ("return", "lag", "rate")]
    lines = [(name, *cells) for name, cells in short.items() if any(cell is not None for cell in cells)]
    if lines:
        tables.show(f"{title}, not at {score:g} after {frames:,} frames", ("", *columns), lines)


if __name__ == "__main__":
    main()
