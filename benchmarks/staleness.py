"""What many actors do to learning: returns after the same number of episodes with 4, 10, 20 and 40 actors.

    python -m benchmarks staleness [--tables AB] [--actors 4,10,20,40] [--seeds 0] [--episodes N] [--pace S]
    python -m benchmarks staleness --policies none,inverse-sqrt,inverse,drop,compensate,refresh,synchronous,together

CartPole-v1 at a fixed pace, so that two cores carry forty actors; episodes end at 200 steps. All actors wait for the
learner before it starts, and so begin together. Returns are means of the last 100 episodes, medians over the seeds.
"pace" is how fast the actors stepped, in the second half of the episodes, over how fast they should: well below 1 the
cores were too few or busy otherwise, and the row says more of them than of staleness. --pace with a longer step is for
such cores.

Table A: the ways of a3cd: n-step rollouts, credit 1, weights refreshed before the gradient, V-trace, 1/sqrt(1 + lag).
Table B: the experiment that a3cd grew out of: one gradient per episode, pushed without limit to a learner that takes
ten of them in the time of an early episode, applied one by one, however old they are.
Table C: the same episodes, pace and slow learner as B, with credit, refresh, V-trace, scaling and coalescing as in A.
A and B differ in much besides; what the ways of a3cd do against overload is B beside C.
With --policies, instead of these: a table for each number of actors, a row for each policy against staleness. All play
as in A but for refresh, V-trace, accumulation and the limit on lag, which are off where the policy is not just that;
"together" is A itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from benchmarks import tables
from benchmarks.runs import Gathered

COMMON: dict[str, Any] = {
    "environment.max_episode_steps": 200,
    "exchange.kind": "gradients",
    "exchange.expiry_seconds": 120.0,
    "limits.until_return": 1e9,
    "limits.seconds": 1800.0,
}
OURS: dict[str, Any] = {
    "environment.num_envs": 1,
    "environment.step_seconds": 0.02,
    "algorithm.rollout_length": 20,
    "optimizer.kind": "rmsprop",  # A3C's own; Adam's momentum and many actors do not go together
    "optimizer.learning_rate": 3e-3,
    "limits.episodes": 1500,
}
OPTIMIZER_SECONDS = "optimizer seconds"
"""No setting of a3cd, but how long each optimizer step of the slow learner takes (benchmarks/slow_learner.py)."""
EARLY_EPISODE_STEPS = 22
STEP_SECONDS = 0.015
ORIGINAL: dict[str, Any] = {
    "environment.num_envs": 1,
    "environment.step_seconds": STEP_SECONDS,
    "algorithm.whole_episodes": True,
    "algorithm.refresh": False,
    "algorithm.correction": "none",
    "optimizer.learning_rate": 2e-3,
    "staleness.scale": "none",
    "staleness.refuse_factor": 0.0,
    "exchange.credit": 0,
    "exchange.coalesce": 1,
    "exchange.accumulate": 1,
    OPTIMIZER_SECONDS: EARLY_EPISODE_STEPS * STEP_SECONDS / 10,
    "limits.episodes": 600,
}
CURED = (
    *("algorithm.refresh", "algorithm.correction", "staleness.scale", "staleness.refuse_factor"),
    *("exchange.credit", "exchange.coalesce", "exchange.accumulate"),
)
TABLES = {
    "A": ("the ways of a3cd", OURS),
    "B": ("gradients without limit to a slow learner", ORIGINAL),
    "C": ("B with the ways of a3cd", {key: value for key, value in ORIGINAL.items() if key not in CURED}),
}
ALIKE: dict[str, Any] = {
    **OURS,
    "algorithm.refresh": False,
    "algorithm.correction": "none",
    "exchange.accumulate": 1,
    "staleness.scale": "none",
    "staleness.refuse_factor": 0.0,
}
POLICIES: dict[str, dict[str, Any]] = {
    "none": ALIKE,
    "inverse-sqrt": {**ALIKE, "staleness.scale": "inverse-sqrt"},
    "inverse": {**ALIKE, "staleness.scale": "inverse"},
    "drop": {**ALIKE, "staleness.drop_above": 4},
    "compensate": {**ALIKE, "staleness.policy": "compensate"},
    "refresh": {**ALIKE, "algorithm.refresh": True, "algorithm.correction": "vtrace"},
    "synchronous": {**ALIKE, "staleness.policy": "synchronous"},
    "together": OURS,
}
START_SECONDS = 20.0
"""Longest per actor, on cores that others use too."""
COLUMNS = ("mean return", "episodes", "frames", "seconds", "steps", "stale", "lag", "lag p95", "learner busy", "pace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="AB", help="any of ABC")
    parser.add_argument("--actors", default="4,10,20,40")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--episodes", type=int, default=0, help="in each run, instead of the table's own number")
    parser.add_argument("--policies", default="", help=f"any of {','.join(POLICIES)}; instead of the tables")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds of a step, instead of the table's own")
    arguments = parser.parse_args()
    policies = arguments.policies.split(",") if arguments.policies else []
    if unknown := set(policies) - set(POLICIES):
        parser.error(f"--policies: there is no {', '.join(sorted(unknown))}; there are {', '.join(POLICIES)}")
    counts = [int(count) for count in arguments.actors.split(",")]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    own = {"limits.episodes": arguments.episodes, "environment.step_seconds": arguments.pace}
    changed = {key: value for key, value in own.items() if value}
    tables.machine()
    if policies:
        for count in counts:
            rows = [(name, *over(name, {**POLICIES[name], **changed}, count, seeds)) for name in policies]
            tables.show(f"policies against staleness, {count} actors, seeds {arguments.seeds}", ("", *COLUMNS), rows)
        return
    for name in arguments.tables:
        title, settings = TABLES[name]
        rows = [(f"{count} actors", *over(name, {**settings, **changed}, count, seeds)) for count in counts]
        tables.show(f"{name}: {title}, seeds {arguments.seeds}", ("", *COLUMNS), rows)


def over(name: str, settings: dict[str, Any], actors: int, seeds: list[int]) -> Iterator[float | None]:
    """Medians over the seeds of what the columns say."""
    measured = [measure(name, settings, actors, seed) for seed in seeds]
    return (tables.median(column) for column in zip(*measured, strict=True))


def measure(name: str, settings: dict[str, Any], actors: int, seed: int) -> tuple[float | None, ...]:
    """What the columns say, at the episode all are compared at (or the run's end, if it came before)."""
    settings = {**COMMON, **settings, "seed": seed}
    label = f"{name}, {actors} actors, seed {seed}"
    optimizer_seconds = settings.pop(OPTIMIZER_SECONDS, 0.0)
    with Gathered("CartPole-v1", actors, label=label, settings=settings, optimizer_seconds=optimizer_seconds) as run:
        result = run.finish(START_SECONDS * actors + 2 * COMMON["limits.seconds"])
    end = result.at_episodes(settings["limits.episodes"]) or result.rows[-1]
    middle = result.at_episodes(end["episodes"] // 2) or end
    now = (end[name] for name in ("mean_return", "episodes", "frames", "seconds", "version", "stale"))
    took = end["seconds"] - middle["seconds"]
    pace = (end["frames"] - middle["frames"]) / actors * settings["environment.step_seconds"] / took if took else None
    summary = result.summary
    return *now, summary["lag_mean"], summary["lag_p95"], summary["learner_busy"], pace


if __name__ == "__main__":
    main()
