"""The experiment that a3cd grew out of, simulated: FlappyBird with 4 to 40 actors, in fixed and growing fleets.

    python -m benchmarks experiment [--seeds 0,1,2,3,4] [--episodes N] [--frames N] [--fleets 4,10,6..12,...]
                                    [--figure FILE] [--folder FOLDER] [--jobs N]

Each actor has one environment and computes one gradient per episode; a step takes 30 ms. The network has one layer of
128, and Adam a learning rate of 1e-4. An optimizer step takes the learner 0.15 s: it keeps up with ten actors while
episodes are short.
"without limits": gradients wait in an unbounded queue and are applied one by one, however old they are; an actor
fetches weights after each gradient. "ours": the same task with a3cd's exchange and its default settings. "with longer
steps": with 2.5 times the learning rate, because a3cd shortens steps by the age of the gradient.
Growing fleets start with the smaller number. --thresholds: they grow at multiples of the first episodes' length, or at
seconds, as in the experiment (20, 40 and 60 s, which are 667 steps and more).

Everything takes some six hours on two cores, so the outcomes are kept in benchmarks/outcomes/experiment: table and
figure are made from these, and only missing cases are run. With another --folder everything is run again.
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
SHOWN = "without limits,ours with longer steps"
FLEETS = "4,10,20,40,6..12,10..20,10..32"
OUTCOMES = tables.ROOT / "benchmarks" / "outcomes" / "experiment"


def main() -> None:
    arguments = parser().parse_args()
    tables.machine()
    outcomes = run_all(cases(arguments), arguments.folder, arguments.jobs)
    rows = grouped([smoothed(one) for one in outcomes])
    columns = ("", "return", "episodes", "frames", "virtual hours", "lag", "actors", f"s to {arguments.score:g}")
    lines = [(name, *figures(found, arguments.score)) for name, found in rows.items()]
    print(f"simulated at {', '.join(sorted({one.commit[:8] for one in outcomes}))}")
    tables.show(f"FlappyBird-v0, {arguments.episodes:,} episodes, seeds {arguments.seeds}", columns, lines)
    if arguments.figure is not None:
        draw(rows, arguments.figure)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", default="0,1,2,3,4")
    options.add_argument("--episodes", type=int, default=100_000)
    options.add_argument("--frames", type=int, default=20_000_000, help="at most")
    options.add_argument("--exchanges", default=SHOWN, help=f"of {', '.join(EXCHANGES)}")
    options.add_argument("--fleets", default=FLEETS, help="numbers of actors, and ranges of those that grow")
    options.add_argument("--thresholds", choices=["relative", "seconds"], default="relative")
    options.add_argument("--score", type=float, default=10.0, help="mean return that the table has the time of")
    options.add_argument("--figure", type=Path, help="PNG or SVG")
    add_options(options, OUTCOMES)
    return options


def cases(given: argparse.Namespace) -> list[Case]:
    """Return a case for each seed, exchange and fleet."""
    limits = {"limits.episodes": given.episodes, "limits.frames": given.frames}
    return [
        Case(f"{exchange}, {fleet}", settings_of(exchange, fleet, given.thresholds, int(seed), limits), world())
        for seed in given.seeds.split(",")
        for exchange in given.exchanges.split(",")
        for fleet in given.fleets.split(",")
    ]


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
    """Return medians over the seeds: figures at the end of the run, and the seconds until the score."""
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
    """Draw the mean return over episodes and over time: a row per exchange, and a line (the median) per fleet."""
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
    """Return equally spaced points up to where half of the runs end, and the median return over the seeds at each."""
    end = median(found, lambda one: float(getattr(one.end, what))) or 0.0
    grid = [end * number / points for number in range(1, points + 1)]
    places = [[one.at(**{what: at}) or one.end for one in found] for at in grid]
    return grid, [tables.median(one.mean_return for one in at) for at in places]


def smoothed(one: Outcome, points: int = 8) -> Outcome:
    """Average each point of the curve with the few before it, so that one lucky point does not count as the score."""
    curve = []
    for number, at in enumerate(one.curve, start=1):
        returns = [point.mean_return for point in one.curve[max(0, number - points) : number]]
        known = [value for value in returns if value is not None]
        curve.append(msgspec.structs.replace(at, mean_return=fmean(known) if known else None))
    return msgspec.structs.replace(one, curve=curve)


if __name__ == "__main__":
    main()
