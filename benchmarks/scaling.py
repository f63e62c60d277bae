"""How the number of actors is decided, on simulated fleets: seconds and actor-hours to a goal, policy by policy.

    python -m benchmarks scaling [--fleets steady,changing] [--carries 4,12,40] [--seeds 0,1,2,3,4] [--jobs N]
        [--learning-rate X]

CartPole-v1 until the last 100 episodes' mean is 450, for ten minutes or 600,000 frames at most: eight copies an actor,
20 steps a second on a host of speed 1. The learner takes as long for a gradient as lets it carry 4, 12 or 40 such
actors at the busy limit. From 2 to 40 actors are allowed; "as many as fit" is the fixed number of which the policies
know nothing. "/ 100": at least so many episodes between two additions; 1000 were the default.

The changing fleet has three hosts of different speeds and links, one of which loses its actors, two of which cannot be
reached for a while, and two actors that are started by hand and leave. Medians over the seeds, one that did not get
there counting as the longest; "actors" is the mean number of them. Results are kept in --folder: a series that was
interrupted goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import tables
from benchmarks.simulations import Case, Outcome, add_options, grouped, median, median_at, run_all
from common.run import presets
from common.settings.sections import Settings
from common.settings.toml import replace_at
from simulation.settings import Costs, Host, Incident, Link, Simulation

GOAL = 450.0
MOST = 40
STEP_SECONDS = 0.05
ROLLOUT_SECONDS = 16 * STEP_SECONDS
BODY_BYTES = 4 * 1027
"""Of a gradient, whose decoding is what the learner is slow at: heartbeats and reports cost it little."""
COMMON: dict[str, Any] = {
    "environment.num_envs": 8,
    "algorithm.rollout_length": 16,
    "exchange.kind": "gradients",
    "exchange.codec": "none",
    "scaling.minimum": 2,
    "scaling.maximum": MOST,
    "limits.until_return": GOAL,
    "limits.seconds": 600.0,
    "limits.frames": 600_000,
}
SELDOM, OFTEN = {"scaling.episodes_between": 1000}, {"scaling.episodes_between": 100}
STEPS = {"scaling.policy": "episode-duration"}
LINEAR = {"scaling.policy": "episode-duration", "scaling.form": "linear"}
LOAD = {"scaling.policy": "load"}
CHANGING = {
    "hosts": [
        Host(name="lab", slots=20),
        Host(name="attic", slots=8, speed=0.5, local=False, link=Link(delay=0.02, jitter=0.01, mbit=20.0, loss=0.005)),
        Host(name="laptop", slots=12, speed=1.5, local=False, link=Link(delay=0.002, mbit=100.0)),
    ],
    "incidents": [
        Incident(at=20.0, kind="crash", who="laptop"),
        Incident(at=30.0, kind="join", who="guest-0"),
        Incident(at=30.0, kind="join", who="guest-1"),
        Incident(at=40.0, kind="partition", who="attic"),
        Incident(at=60.0, kind="crash", who="lab-0"),
        Incident(at=70.0, kind="heal", who="attic"),
        Incident(at=90.0, kind="partition", who="laptop"),
        Incident(at=120.0, kind="leave", who="guest-0"),
        Incident(at=120.0, kind="leave", who="guest-1"),
        Incident(at=150.0, kind="heal", who="laptop"),
    ],
}
FLEETS: dict[str, dict[str, Any]] = {"steady": {"hosts": [Host(slots=MOST)]}, "changing": CHANGING}
FIGURES = ("seconds", "actor_seconds", "frames")
COLUMNS = ("learner carries", "reached", "seconds", "actor-hours", "actors", "most", "frames", "lag", "busy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleets", default="steady,changing")
    parser.add_argument("--carries", default="4,12,40", help="actors that the learner can carry")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--learning-rate", type=float, default=0.0, help="instead of the preset's 5e-3")
    add_options(parser, "runs/scaling")
    arguments = parser.parse_args()
    carried = [int(one) for one in arguments.carries.split(",")]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    tables.machine()
    for fleet in arguments.fleets.split(","):
        rows: list[tuple[Any, ...]] = []
        for carries in carried:
            each = [(name, seed) for name in policies(carries) for seed in seeds]
            cases = [case(fleet, carries, name, seed, arguments.learning_rate) for name, seed in each]
            rows += rows_of(carries, run_all(cases, arguments.folder, arguments.jobs))
        tables.show(f"CartPole-v1 to {GOAL:g}, {fleet} fleet, seeds {arguments.seeds}", ("", *COLUMNS), rows)


def policies(carries: int) -> dict[str, dict[str, Any]]:
    """What decides, by what it is called in the table."""
    return {
        "fixed 2": fixed(2),
        "fixed, as many as fit": fixed(carries),
        f"fixed {MOST}": fixed(MOST),
        "episode-duration steps / 1000": STEPS | SELDOM,
        "episode-duration steps / 100": STEPS | OFTEN,
        "episode-duration linear / 100": LINEAR | OFTEN,
        "load": LOAD,
    }


def fixed(actors: int) -> dict[str, Any]:
    return {"scaling.policy": "fixed", "scaling.minimum": actors}


def case(fleet: str, carries: int, name: str, seed: int, learning_rate: float = 0.0) -> Case:
    step_size = {"optimizer.learning_rate": learning_rate} if learning_rate else {}
    settings = settings_of(policies(carries)[name] | step_size | {"seed": seed})
    return Case(name, settings, Simulation(costs=costs(settings, carries), **FLEETS[fleet]))


def settings_of(changes: dict[str, Any]) -> Settings:
    return replace_at(presets.for_environment("CartPole-v1", None), COMMON | changes)


def costs(settings: Settings, carries: int) -> Costs:
    """Of a learner that is at the busy limit with so many actors."""
    gradient = settings.scaling.busy_limit * ROLLOUT_SECONDS / carries
    return Costs(batch_step=STEP_SECONDS, environment_step=0.0, message_mib=gradient * 2**20 / BODY_BYTES)


def rows_of(carries: int, outcomes: Sequence[Outcome]) -> Iterator[tuple[Any, ...]]:
    """What the columns say."""
    for name, some in grouped(outcomes).items():
        seconds, actor_seconds, frames = (median_at(some, GOAL, figure) for figure in FIGURES)
        yield (
            name,
            carries,
            f"{sum(one.first(GOAL) is not None for one in some)} of {len(some)}",
            seconds,
            actor_seconds and actor_seconds / 3600.0,
            median(some, lambda one: one.end.actor_seconds / one.end.seconds),
            median(some, lambda one: float(max(point.actors for point in one.curve))),
            frames,
            median(some, lambda one: one.end.lag),
            median(some, lambda one: one.end.busy),
        )


if __name__ == "__main__":
    main()
