"""`a3cd simulate`: a run of the real cores on a virtual clock, or many of them side by side."""

from __future__ import annotations

import json
import shlex
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from common.errors import EXIT_DONE, ConfigurationError, UnavailableError
from common.host.service import logs
from common.run import presets
from common.run.folder import default_path
from common.run.status import RunStatus, summary
from common.settings.toml import read
from deploy.arguments import RangeType, finish, json_option, lifeline_option, limit_options, set_option
from deploy.cli.request import asked

if TYPE_CHECKING:
    from common.settings.sections import Settings
    from simulation.cluster import Cluster
    from simulation.recorders import FolderRecorder
    from simulation.settings import Simulation

SHOW_SECONDS = 0.5
"""Real time between two looks at a simulation for the panel."""
SLICE_SECONDS = 0.1
"""Virtual time between two looks at the real clock."""
_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("run", metavar="RUN.toml")
@click.option("--actors", type=RangeType(), help="Number of actors; a range scales with the duration of episodes.")
@limit_options("virtual time")
@set_option
@click.option("--world", type=_FILE, help="What things cost, hosts, links and incidents (TOML; docs/simulation.md).")
@click.option("--world-set", "worldly", multiple=True, metavar="KEY=VALUE", help="Such as costs.optimizer_step=0.01.")
@click.option("--measure", is_flag=True, help="Measure the costs on this machine first.")
@click.option("--sweep", multiple=True, metavar="KEY=A,B,...", help="Run once for each value; may be repeated.")
@click.option("--seeds", metavar="A..B", help="Run with each of these seeds.")
@click.option("--jobs", type=click.IntRange(1), help="Simulations at a time in a sweep; default: one for each core.")
@click.option("--run-dir", type=_FOLDER, help="Default: runs/simulated-ENV-DATE-TIME.")
@json_option
@lifeline_option
def simulate(run: str, **given: Any) -> None:
    """Train in virtual time, in one process: learner, launchers and actors are real, the network and the clock are not.

    RUN.toml holds run settings, as `a3cd learner` takes them; the name of a preset will do. The same settings give the
    same run, to the last bit of the weights.
    """
    sweep, seeds, jobs = given.pop("sweep"), given.pop("seeds"), given.pop("jobs")
    if sweep or seeds:
        from deploy.cli.sweep import sweep as run_all

        finish(run_all(run, sweep=sweep, seeds=seeds, jobs=jobs, **given))
    if jobs:
        raise click.UsageError("--jobs is for many simulations: give --sweep or --seeds as well")
    finish(_one(run, **given))


def settings_of(run: str, *, actors: tuple[int, int] | None, assignments: tuple[str, ...], **limits: Any) -> Settings:
    """The settings of the file or of the preset, with what the command line says."""
    file = Path(run)
    settings = read(file) if file.exists() and not file.is_dir() else presets.for_environment(run, None)
    settings = asked(settings, actors=actors, assignments=assignments, algorithm=None, network=None, **limits)
    if settings.limits.until_return is not None and settings.limits.until_return_of == "evaluation":
        raise ConfigurationError(
            'limits.until_return_of is "evaluation", but nobody evaluates in a simulation: must be "training"'
        )
    return settings


def world_of(world: Path | None, worldly: tuple[str, ...]) -> Simulation:
    from simulation.settings import Simulation, override
    from simulation.settings import read as read_world

    return override(read_world(world) if world is not None else Simulation(), worldly)


def _one(
    run: str,
    *,
    world: Path | None,
    worldly: tuple[str, ...],
    measure: bool,
    run_dir: Path | None,
    as_json: bool,
    **given: Any,
) -> int:
    begun = time.monotonic()
    settings, simulated = settings_of(run, **given), world_of(world, worldly)
    # Imported here, not at the top: they load torch, gymnasium and more, which a wrong setting should not wait for.
    from simulation.cluster import Cluster
    from simulation.measure import measured
    from simulation.recorders import FolderRecorder

    if measure:
        with redirect_stdout(sys.stderr):
            simulated = msgspec.structs.replace(simulated, costs=measured(settings, simulated.costs))
        click.echo(f"measured: {_shown(simulated)}", err=True)
    recorder = FolderRecorder(run_dir or default_path(f"simulated-{settings.environment.id}"), settings)
    logs.setup("learner")
    try:
        cluster = Cluster(settings, simulated, recorder, folder=recorder.run.folder, record=recorder.run.record)
    except BaseException:
        recorder.close(None)
        recorder.run.discard()
        raise
    status = _run(cluster, recorder)
    took = time.monotonic() - begun
    result = summary(status) | {"simulated_in": took, "events": cluster.queue.happened}
    click.echo(json.dumps(result) if as_json else _text(result))
    return EXIT_DONE


def _run(cluster: Cluster, recorder: FolderRecorder) -> RunStatus:
    """Simulate until the run is over; raises UnavailableError when no actor will ever play, or when the time is up."""
    from deploy.cli.view.progress import open_view

    status: RunStatus | None = None
    recorder.run.begin(cluster.settings)
    try:
        # What environments print goes to stderr, above the panel: stdout carries the result.
        with open_view() as view, redirect_stdout(sys.stderr):
            due = time.monotonic()
            while not cluster.over:
                cluster.run(cluster.queue.now + SLICE_SECONDS)
                if time.monotonic() >= due:
                    due = time.monotonic() + SHOW_SECONDS
                    view.show(cluster.status())
                    if why := cluster.hopeless:
                        raise UnavailableError(f"no actor can play: {why}")
        status = cluster.status()
    finally:
        recorder.close(status)
    return status


def _shown(simulated: Simulation) -> str:
    return ", ".join(f"costs.{name}={value:.3g}" for name, value in msgspec.to_builtins(simulated.costs).items())


def _text(result: dict[str, Any]) -> str:
    mean = "no episode finished" if result["mean_return"] is None else f"mean return {result['mean_return']:.1f}"
    return (
        f"{result['env']}: {mean} after {result['frames']:,} frames, {result['episodes']:,} episodes and "
        f"{result['seconds']:.1f} virtual s ({result['state']}), simulated in {result['simulated_in']:.1f} s\n"
        f"  curve     {result['run_dir']}/curve.png\n"
        f"  evaluate  a3cd evaluate {shlex.quote(result['run_dir'])}"
    )
