"""The `a3cd` command: reads the command line, hands plain values to the part that does the work.

Every part is imported only when its command runs: `a3cd --help` and the launcher need no torch.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from common.addresses import DEFAULT_PORT, Address
from common.errors import EXIT_SIGINT, A3cdError
from common.service import logs
from deploy.arguments import (
    AddressType,
    RangeType,
    json_option,
    lifeline_option,
    max_steps_option,
    newest_option,
    run_argument,
    sampled_option,
    set_option,
)


def _version() -> str:
    try:
        return version("a3cd")
    except PackageNotFoundError:
        return "not installed"


class Group(click.Group):
    """A group whose commands end with one line and an exit code, never a traceback, when a person can mend it."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except A3cdError as error:
            ctx.exit(logs.fail(error))
        except KeyboardInterrupt:
            ctx.exit(EXIT_SIGINT)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(_version(), prog_name="a3cd")
def cli() -> None:
    """Asynchronous actor-learner reinforcement learning as ordinary network daemons.

    `a3cd train CartPole-v1` trains on this machine. With more machines: `a3cd learner` on one, `a3cd actor` or
    `a3cd launcher` with its address on the others.
    """
    logs.setup("a3cd")


def _exit(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.exit(code)


def _hold_on(lifeline: bool) -> None:
    if lifeline:
        from common.service.lifeline import watch

        watch()


@cli.command()
@click.argument("env")
@click.option("--actors", type=RangeType(), help="Actors; a range scales by how long episodes last.")
@click.option("--algorithm", help="As algorithm.kind.")
@click.option("--network", help="As network.kind.")
@click.option("--seed", type=int)
@click.option("--frames", type=int, help="Stop after so many environment steps.")
@click.option("--episodes", type=int, help="Stop after so many episodes.")
@click.option("--seconds", type=float, help="Stop after so long.")
@click.option("--until-return", type=float, help="Stop at this mean training return.")
@set_option
@click.option("--run-dir", type=click.Path(path_type=Path, file_okay=False), help="Default: runs/ENV-DATE-TIME.")
@click.option("--resume", is_flag=True, help="Go on with the run in --run-dir.")
@json_option
def train(env: str, as_json: bool, **given: Any) -> None:
    """Train on this machine: learner, launcher and actors as processes that talk over tcp.

    ENV is a Gymnasium id (CartPole-v1, ALE/Pong-v5, module:Id-v0) or a preset's name (see `a3cd presets`).
    """
    from deploy.train import plan
    from deploy.train import train as run

    _exit(run(plan(env, **given), as_json=as_json))


@cli.command()
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="The run settings (TOML).")
@click.option(
    "--bind",
    type=AddressType(connect=False),
    default=f"tcp://127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    help="Where to listen; the next port is used for the weights.",
)
@click.option("--run-dir", type=click.Path(path_type=Path, file_okay=False), help="Default: runs/ENV-DATE-TIME.")
@click.option("--resume", is_flag=True, help="Go on with the run in --run-dir.")
@set_option
@lifeline_option
def learner(
    config: Path | None,
    bind: Address,
    run_dir: Path | None,
    resume: bool,
    assignments: tuple[str, ...],
    lifeline: bool,
) -> None:
    """Hold the weights: take gradients from actors, send weights, say how many actors are wanted."""
    from common.run_folder import default_path
    from common.settings.toml import override, read
    from learner.daemon import run

    logs.setup("learner")
    _hold_on(lifeline)
    if config is None and not resume:
        raise click.UsageError(
            "a learner needs --config FILE (see `a3cd presets show NAME`), or --resume with --run-dir"
        )
    if resume and run_dir is None:
        raise click.UsageError("--resume needs --run-dir")
    settings = None if config is None else override(read(config), assignments)
    if settings is None and assignments:
        raise click.UsageError("--set needs --config")
    where = run_dir or default_path(settings.environment.id if settings else "")
    _exit(run(settings, bind=bind, run_dir=where, resume=resume))


@cli.command()
@click.argument("learner_address", metavar="LEARNER", type=AddressType())
@click.option("--name", default="", help="How this actor is called in status; default: host and process id.")
@click.option("--launcher", default="", hidden=True)
@lifeline_option
def actor(learner_address: Address, name: str, launcher: str, lifeline: bool) -> None:
    """Play for the learner at LEARNER (tcp://host:5555); everything else comes from there."""
    from actor.daemon import run

    logs.setup("actor")
    _hold_on(lifeline)
    _exit(run(learner_address, name=name, launcher=launcher))


@cli.command()
@click.argument("learner_address", metavar="LEARNER", type=AddressType())
@click.option("--slots", type=click.IntRange(1, 4096), required=True, help="Most actors to run here.")
@click.option("--start-with", type=click.Choice(["process"]), default="process", show_default=True)
@click.option("--name", default="", help="How this launcher is called in status; default: host and process id.")
@click.option("--warm", type=click.IntRange(0), default=0, hidden=True, help="Actors to start before the first order.")
@lifeline_option
def launcher(learner_address: Address, slots: int, start_with: str, name: str, warm: int, lifeline: bool) -> None:
    """Start and stop actors on this host, as many as the learner at LEARNER orders."""
    from deploy.launcher.start import start

    logs.setup("launcher")
    _hold_on(lifeline)
    _exit(start(learner_address, slots=slots, start_with=start_with, name=name, warm=warm))


@cli.command()
@click.argument("learner_address", metavar="LEARNER", type=AddressType())
@click.option("--watch", is_flag=True, help="Stay, and show the live panel.")
@json_option
@click.option("--timeout", type=float, default=5.0, show_default=True, help="Seconds to wait for the learner.")
def status(learner_address: Address, watch: bool, as_json: bool, timeout: float) -> None:
    """Show how the run at LEARNER is going."""
    from deploy import report

    _exit(report.run(learner_address, watch=watch, as_json=as_json, timeout=timeout))


@cli.command()
@run_argument
@click.option("--episodes", type=click.IntRange(1), default=20, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@sampled_option
@newest_option
@max_steps_option
@json_option
def evaluate(
    run_dir: Path, episodes: int, seed: int, sampled: bool, newest: bool, max_steps: int, as_json: bool
) -> None:
    """Play episodes with the agent of the run folder RUN and say how well it did."""
    from actor import playing

    result = playing.evaluate(
        run_dir,
        episodes=episodes,
        sampled=sampled,
        seed=seed,
        max_steps=max_steps,
        checkpoint="newest" if newest else "best",
    )
    if as_json:
        click.echo(msgspec.json.encode(result).decode())
        return
    capped = f", {result.capped} cut off at {result.max_steps:,} steps" if result.capped else ""
    click.echo(
        f"{result.env}, weights of version {result.version}: mean return {result.mean:.2f}, spread {result.std:.2f}, "
        f"from {result.minimum:g} to {result.maximum:g} over {result.episodes} episodes of {result.length_mean:.0f} "
        f"steps on average{capped}"
    )


@cli.command()
@run_argument
@click.option("--seed", type=int, default=0, show_default=True)
@sampled_option
@newest_option
def play(run_dir: Path, seed: int, sampled: bool, newest: bool) -> None:
    """Watch the agent of the run folder RUN in a window."""
    from actor import window

    window.play(run_dir, sampled=sampled, seed=seed, checkpoint="newest" if newest else "best")


@cli.command()
@run_argument
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help=".gif, .mp4 or .webm")
@click.option("--episodes", type=click.IntRange(1), default=1, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@sampled_option
@newest_option
@max_steps_option
def record(run_dir: Path, out: Path, episodes: int, seed: int, sampled: bool, newest: bool, max_steps: int) -> None:
    """Record the agent of the run folder RUN as a film."""
    from actor import recording

    recording.record(
        run_dir,
        out,
        episodes=episodes,
        sampled=sampled,
        seed=seed,
        max_steps=max_steps,
        checkpoint="newest" if newest else "best",
    )
    click.echo(str(out))


@cli.group(invoke_without_command=True)
@click.pass_context
def presets(ctx: click.Context) -> None:
    """List the tuned settings."""
    from common import presets as tuned

    if ctx.invoked_subcommand is None:
        for name in tuned.names():
            click.echo(f"{name:<24}{tuned.show(name).purpose}")


@presets.command("show")
@click.argument("name")
def presets_show(name: str) -> None:
    """Print the preset NAME as the TOML that a learner takes."""
    from common import presets as tuned

    click.echo(tuned.show(name).text, nl=False)


@cli.command("check-config")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def check_config(file: Path) -> None:
    """Say whether FILE is a run a learner would take, without starting anything."""
    from common.settings.toml import read

    settings = read(file)
    click.echo(f"{file}: good: {settings.environment.id}, {settings.algorithm.kind}, {settings.scaling.policy} scaling")


@cli.command()
@click.option("--learner", "learner_address", type=AddressType(), help="Also check the way to this learner.")
@click.option("--port", type=click.IntRange(1, 65534), default=DEFAULT_PORT, show_default=True)
def doctor(learner_address: Address | None, port: int) -> None:
    """Look at this machine: versions, ports, threads, GPU; what is wrong and how to mend it."""
    from deploy import doctor as examination

    findings = examination.run(learner_address, port)
    examination.show(findings)
    _exit(examination.exit_code(findings))


def main() -> None:
    """Entry point of the console script."""
    cli(prog_name="a3cd")


if __name__ == "__main__":
    main()
