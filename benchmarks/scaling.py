"""Scaling policies compared on simulated fleets: seconds and actor-hours to a goal with each policy.

    python -m benchmarks scaling [--fleets steady,changing] [--carries 4,12,40] [--seeds 0,1,2,3,4] [--jobs N]
        [--learning-rate X]

CartPole-v1 until the mean return of the last 100 episodes is 450, for at most ten minutes or 600,000 frames. Each actor
has eight copies, at 20 steps a second on a host of speed 1. A gradient takes the learner as long as lets it carry 4, 12
or 40 such actors at its busy limit. The policies may choose 2 to 40 actors; "as many as fit" is the fixed number that
the learner carries, which the policies do not know. "/ 100": at least 100 episodes between two additions (the default
was 1000).

The changing fleet has three hosts with different speeds and links: one loses its actors, two cannot be reached for a
while, and two actors are started by hand and leave. Figures are medians over the seeds; a seed that did not reach the
goal counts as the longest. "actors" is the mean number of actors. Results are kept in --folder, so that an interrupted
series can go on.
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
"""Bytes of a gradient. The learner's costs are set per byte, so that heartbeats and reports cost it little."""
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
    """Return the policies' settings by their names in the table."""
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
    """Return the costs of a learner that `carries` actors keep at its busy limit."""
    gradient = settings.scaling.busy_limit * ROLLOUT_SECONDS / carries
    return Costs(batch_step=STEP_SECONDS, environment_step=0.0, message_mib=gradient * 2**20 / BODY_BYTES)


def rows_of(carries: int, outcomes: Sequence[Outcome]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the table."""
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
