"""The experiment that a3cd grew out of, simulated: FlappyBird by 4 to 40 actors, fixed and growing in number.

    python -m benchmarks experiment [--seeds 0,1,2,3,4] [--episodes N] [--frames N] [--fleets 4,10,6..12,...]
                                    [--figure FILE] [--folder FOLDER] [--jobs N]

One environment per actor, a network with one layer of 128, Adam with 1e-4, and a gradient for each whole episode, whose
steps take 30 ms. The learner needs 0.15 s for an optimizer step: it keeps up with ten actors while episodes are short.
"without limits": gradients are pushed to a queue without a bound and applied one by one, however old they are, and
weights are fetched after each push. "ours": the same task with our exchange, whose settings are the defaults. "with
longer steps": with two and a half times the learning rate, since ours makes steps shorter by the age of the gradient.
Fleets that grow begin with the smaller number. --thresholds: they grow by multiples of the first episodes' length, or
by seconds, as in the experiment (20, 40 and 60 s, which are 667 steps and more).

All of it takes two cores some six hours, so its outcomes are kept beside it (benchmarks/outcomes/experiment): the table
and the figure are made of these, and only what is missing there is run. Another --folder runs everything again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from benchmarks import tables
from benchmarks.factors import OURS, UNLIMITED
from benchmarks.simulations import Case, Outcome, add_options, grouped, median, median_at, run_all
from common.settings.sections import Settings
from common.settings.toml import replace_at
from simulation.settings import Costs, Simulation

STEP_SECONDS = 0.03
TASK: dict[str, Any] = {
    "environment.id": "FlappyBird-v0",
    "environment.options": {"use_lidar": False},
    "environment.num_envs": 1,
    "environment.step_seconds": STEP_SECONDS,
    "network.hidden": [128],
    "network.input_scale": 5.0,
    "algorithm.whole_episodes": True,
    "optimizer.kind": "adam",
    "optimizer.learning_rate": 1e-4,
}
COSTS = Costs(
    batch_step=0.0,
    environment_step=0.0,
    gradient=STEP_SECONDS,
    gradient_step=0.0,
    optimizer_step=0.15,
)
LONGER = {"optimizer.learning_rate": 2.5e-4}
EXCHANGES = {
    "without limits": UNLIMITED,
    "ours": OURS,
    "without limits with longer steps": UNLIMITED | LONGER,
    "ours with longer steps": OURS | LONGER,
}
FLEETS = "4,10,20,40,6..12,10..20,10..32"
OUTCOMES = tables.ROOT / "benchmarks" / "outcomes" / "experiment"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--frames", type=int, default=20_000_000, help="at most")
    parser.add_argument("--exchanges", default=",".join(EXCHANGES))
    parser.add_argument("--fleets", default=FLEETS, help="numbers of actors, and ranges of those that grow")
    parser.add_argument("--thresholds", choices=["relative", "seconds"], default="relative")
    parser.add_argument("--score", type=float, default=10.0, help="mean return that the table has the time of")
    parser.add_argument("--figure", type=Path, help="PNG or SVG")
    add_options(parser, OUTCOMES)
    arguments = parser.parse_args()
    limits = {"limits.episodes": arguments.episodes, "limits.frames": arguments.frames}
    cases = [
        Case(f"{exchange}, {fleet}", settings_of(exchange, fleet, arguments.thresholds, int(seed), limits), world())
        for seed in arguments.seeds.split(",")
        for exchange in arguments.exchanges.split(",")
        for fleet in arguments.fleets.split(",")
    ]
    tables.machine()
    outcomes = run_all(cases, arguments.folder, arguments.jobs)
    rows = grouped([smoothed(one) for one in outcomes])
    columns = ("", "return", "episodes", "frames", "virtual hours", "lag", "actors", f"s to {arguments.score:g}")
    lines = [(name, *figures(found, arguments.score)) for name, found in rows.items()]
    commits = ", ".join(sorted({one.commit[:8] for one in outcomes}))
    title = f"FlappyBird-v0, {arguments.episodes:,} episodes, seeds {arguments.seeds}, simulated at {commits}"
    tables.show(title, columns, lines)
    if arguments.figure is not None:
        draw(rows, arguments.figure)


def settings_of(exchange: str, fleet: str, unit: str, seed: int, limits: dict[str, Any]) -> Settings:
    least, _, most = fleet.partition("..")
    scaling = {
        "scaling.policy": "episode-duration" if most else "fixed",
        "scaling.unit": unit,
        "scaling.minimum": int(least),
        "scaling.maximum": int(most or least),
    }
    return replace_at(Settings(), TASK | EXCHANGES[exchange] | scaling | limits | {"seed": seed})


def world() -> Simulation:
    return Simulation(costs=COSTS)


def figures(found: Sequence[Outcome], score: float) -> tuple[float | None, ...]:
    """Medians over the seeds, at the end, and of the seconds until the score."""
    of = (
        lambda one: one.end.mean_return,
        lambda one: one.end.episodes,
        lambda one: one.end.frames,
        lambda one: one.end.seconds / 3600,
        lambda one: one.end.lag,
        lambda one: one.end.actors,
    )
    return *(median(found, figure) for figure in of), median_at(found, score, "seconds")


def draw(rows: dict[str, list[Outcome]], file: Path) -> None:
    """Mean return by episodes and by time; above without limits, below with ours. A line for each fleet: the median."""
    from matplotlib.figure import Figure

    names = [name.split(", ") for name in rows]
    exchanges = list(dict.fromkeys(exchange for exchange, _ in names))
    colours = {fleet: f"C{number}" for number, fleet in enumerate(dict.fromkeys(fleet for _, fleet in names))}
    figure = Figure((10, 3.6 * len(exchanges)), layout="constrained")
    axes = figure.subplots(len(exchanges), 2, squeeze=False, sharex="col", sharey=True)
    for line, exchange in zip(axes, exchanges, strict=True):
        for axis, what in zip(line, ("episodes", "seconds"), strict=True):
            for fleet, colour in colours.items():
                if (found := rows.get(f"{exchange}, {fleet}")) is not None:
                    grid, returns = middle(found, what)
                    axis.plot(grid, returns, label=fleet, color=colour, linewidth=1.2)
            axis.set_title(exchange, loc="left", fontsize=10)
            axis.set_xlabel("episodes" if what == "episodes" else "virtual seconds")
            if what == "seconds":
                axis.set_xscale("log")
                axis.set_xlim(left=300.0)
            axis.grid(alpha=0.3)
        line[0].set_ylabel("mean return")
        line[0].legend(title="actors", fontsize=8)
    figure.savefig(file, dpi=120)


def middle(found: Sequence[Outcome], what: str, points: int = 200) -> tuple[list[float], list[float | None]]:
    """The median over the seeds at equal distances, up to where half of the runs end."""
    end = median(found, lambda one: float(getattr(one.end, what))) or 0.0
    grid = [end * number / points for number in range(1, points + 1)]
    places = [[one.at(**{what: at}) or one.end for one in found] for at in grid]
    return grid, [tables.median(one.mean_return for one in at) for at in places]


def smoothed(one: Outcome, points: int = 8) -> Outcome:
    """With means of the last few points of its curve: of a hundred episodes alone, one lucky one makes a score."""
    curve = []
    for number, at in enumerate(one.curve, start=1):
        returns = [point.mean_return for point in one.curve[max(0, number - points) : number]]
        known = [value for value in returns if value is not None]
        curve.append(msgspec.structs.replace(at, mean_return=fmean(known) if known else None))
    return msgspec.structs.replace(one, curve=curve)


if __name__ == "__main__":
    main()
