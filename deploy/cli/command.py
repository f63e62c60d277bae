"""The `a3cd` command: read the command line and hand plain values to the part that does the work.

Each part is imported only when its command runs: `a3cd --help` and the launcher need no torch.
"""

import importlib
import os
from pathlib import Path
from typing import Any

import click

from actor.agent import EPISODE_STEPS, GIF_STEPS
from common.errors import EXIT_DONE, EXIT_SIGINT, A3cdError, TorchMissingError, UnavailableError
from common.host.addresses import DEFAULT_PORT, Address
from common.host.security.access import LearnerEndpoint
from common.host.service import logs
from common.host.service.leaving import leave
from deploy.arguments import (
    AddressType,
    RangeType,
    agent_options,
    finish,
    json_option,
    learner_argument,
    learner_option,
    lifeline_option,
    limit_options,
    module_option,
    nice_option,
    security_options,
    set_option,
    wait_option,
)

_ELSEWHERE = {
    "deploy": "deploy.install.command",
    "evaluator": "deploy.cli.evaluator",
    "keys": "deploy.keys",
    "launcher": "deploy.launcher.command",
    "simulate": "deploy.cli.simulate",
    "tune": "deploy.cli.tune.command",
}
"""Commands by the module that has them: only who asks for one waits until it is loaded."""
_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


class Group(click.Group):
    """A group whose commands end with one line and an exit code, not a traceback, for errors that a person can mend."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except A3cdError as error:
            ctx.exit(logs.fail(error))
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            ctx.exit(logs.fail(TorchMissingError(f"a3cd {ctx.invoked_subcommand}")))
        except KeyboardInterrupt:
            ctx.exit(EXIT_SIGINT)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(importlib.import_module(_ELSEWHERE[cmd_name]), cmd_name)
        return command


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="a3cd", prog_name="a3cd")
def cli() -> None:
    """Asynchronous actor-learner reinforcement learning as ordinary network daemons.

    `a3cd train CartPole-v1` trains on this machine. With more machines: `a3cd learner` on one, `a3cd actor` or
    `a3cd launcher` with its address on the others.
    """
    logs.setup("a3cd")
    # More threads do not speed up networks this small, and slow down the other daemons; read when numpy is loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@cli.command()
@click.argument("env", required=False)
@click.option("--config", type=_FILE, help="Run settings (TOML) instead of the preset's.")
@click.option("--actors", type=RangeType(), help="Number of actors; a range scales with the duration of episodes.")
@click.option("--algorithm", help="algorithm.kind, with the preset's settings for it.")
@click.option("--network", help="network.kind.")
@click.option(
    "--reproducible", is_flag=True, help="The same command gives the same weights to the last bit, more slowly."
)
@limit_options("time")
@set_option
@click.option("--run-dir", type=_FOLDER, help="Default: runs/ENV-DATE-TIME.")
@click.option("--resume", is_flag=True, help="Go on with the run in --run-dir.")
@click.option("--no-curve", is_flag=True, help="Draw no learning curve at the end (see `a3cd curve`).")
@json_option
@lifeline_option
def train(env: str | None, as_json: bool, **given: Any) -> None:
    """Train on this machine: learner, launcher and actors as processes that talk over tcp.

    ENV is a Gymnasium id (CartPole-v1, ALE/Pong-v5, module:Id-v0) or a preset's name (see `a3cd presets`).
    """
    if env is None:
        from common.run import presets as tuned

        raise click.UsageError(
            "train what? Give a Gymnasium id (CartPole-v1, ALE/Pong-v5, module:Id-v0) or a preset's name; there are "
            f"{', '.join(tuned.names())} (`a3cd presets` says what each is for)"
        )
    from deploy.cli.request import request
    from deploy.cli.train import train as run

    finish(run(request(env, **given), as_json=as_json))


@cli.command()
@click.option("--config", type=_FILE, help="The run settings (TOML).")
@click.option(
    "--bind",
    type=AddressType(connect=False),
    default=f"tcp://127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    help="Where to listen; the next port is used for the weights.",
)
@click.option("--listeners", hidden=True, help="Descriptors of the two listening sockets, inherited.")
@click.option("--settings", "source", type=int, hidden=True, help="Instead of --config a descriptor, inherited.")
@click.option("--no-curve", is_flag=True, help="Draw no learning curve at the end (see `a3cd curve`).")
@click.option("--run-dir", type=_FOLDER, help="Default: runs/ENV-DATE-TIME.")
@click.option("--resume", is_flag=True, help="Go on with the run in --run-dir.")
@click.option("--resume-or-create", is_flag=True, help="--resume if --run-dir holds a run, else begin one there.")
@click.option("--allowed", type=_FILE, help="The file of allowed peers; default: `allowed` in the key folder.")
@set_option
@security_options
@lifeline_option
def learner(
    config: Path | None,
    bind: Address,
    listeners: str | None,
    source: int | None,
    run_dir: Path | None,
    resume: bool,
    resume_or_create: bool,
    assignments: tuple[str, ...],
    no_curve: bool,
    **security: Any,
) -> None:
    """Train the network with what actors send, send them weights, and tell launchers how many actors to run."""
    from common.run.folder import RunFolder, default_path
    from common.settings.toml import override, parse, read
    from common.wire import sockets
    from learner.authentication import LearnerKeys
    from learner.daemon import load, run

    logs.setup("learner")
    if (resume or resume_or_create) and run_dir is None:
        raise click.UsageError("--resume needs --run-dir")
    if resume_or_create and run_dir is not None:
        resume = resume or RunFolder(run_dir).holds_run()
    settings = None
    if source is not None:
        load()  # the settings come when they are found to be good
        with os.fdopen(source, encoding="utf-8") as pipe:
            text = pipe.read()
        if not text:
            finish(EXIT_DONE)  # they are not, or there is nobody any more
        settings = parse(text, "settings")
    elif config is not None:
        settings = override(read(config), assignments)
    elif assignments:
        raise click.UsageError("--set needs --config")
    elif not resume:
        raise click.UsageError("a learner needs --config FILE (see `a3cd presets show NAME`), or a run to --resume")
    own_keys = LearnerKeys.find(bind, **security)
    where = run_dir or default_path(settings.environment.id if settings else "")
    inherited = None if listeners is None else sockets.inherit(listeners)
    finish(
        run(
            settings,
            bind=bind,
            listeners=inherited,
            keys=own_keys,
            run_dir=where,
            resume=resume,
            curve=not no_curve,
        )
    )


@cli.command()
@learner_argument
@click.option("--name", default="", help="This actor's name in status; default: host and process id.")
@click.option("--launcher", default="", hidden=True)
@nice_option
@module_option
@wait_option
@lifeline_option
def actor(access: LearnerEndpoint, name: str, launcher: str, nice: int, modules: tuple[str, ...], wait: float) -> None:
    """Play for the learner at LEARNER: tcp://host:5555, or an invitation. Its welcome brings all other settings."""
    from actor.daemon import run

    logs.setup("actor")
    if nice and hasattr(os, "nice"):
        os.nice(nice)
    finish(run(access, name=name, launcher=launcher, modules=modules, wait=wait))


@cli.command()
@learner_argument
@click.option("--watch", is_flag=True, help="Stay, and show the live panel.")
@json_option
@click.option("--timeout", type=float, default=5.0, show_default=True, help="Seconds to wait for the learner.")
@click.option("--extra", is_flag=True, hidden=True, help="Print the extras of a3cd that actors of the run need.")
def status(access: LearnerEndpoint, watch: bool, as_json: bool, timeout: float, extra: bool) -> None:
    """Show the state of the run at LEARNER."""
    from deploy.cli.view import report

    if extra:
        click.echo(report.extra(access, timeout))
        return
    report.run(access, watch=watch, as_json=as_json, timeout=timeout)


@cli.command()
@agent_options
@click.option("--episodes", type=click.IntRange(1), default=20, show_default=True)
@click.option(
    "--max-steps", type=click.IntRange(1), default=EPISODE_STEPS, show_default=True, help="Longest episode, in steps."
)
@json_option
def evaluate(run_dir: Path, as_json: bool, **options: Any) -> None:
    """Play episodes with the agent of the run folder RUN and print its returns."""
    from actor.agent import evaluation

    result = evaluation.evaluate(run_dir, **options)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(result).decode())
        return
    capped = f", {result.capped} cut off at {result.max_steps:,} steps" if result.capped else ""
    if result.capped and not result.sampled:
        capped += "; if nothing happens in them, try --sampled, which draws actions as in training"
    between = "" if result.low is None else f" (95 % interval by Student's t: {result.low:.2f} to {result.high:.2f})"
    click.echo(
        f"{result.env}, weights of version {result.version}, {'drawn' if result.sampled else 'best'} actions: "
        f"mean return {result.mean:.2f}{between}, median {result.median:.2f}, interquartile mean "
        f"{result.interquartile_mean:.2f}, from {result.minimum:g} to {result.maximum:g} over {result.episodes} "
        f"episodes of {result.length_mean:.0f} steps on average{capped}"
    )


@cli.command()
@agent_options
def play(run_dir: Path, **options: Any) -> None:
    """Watch the agent of the run folder RUN in a window."""
    from actor.agent import window

    window.play(run_dir, **options)


@cli.command()
@agent_options
@click.option("--out", type=_FILE, required=True, help=".gif, .mp4 or .webm")
@click.option("--episodes", type=click.IntRange(1), default=1, show_default=True)
@click.option(
    "--max-steps",
    type=click.IntRange(1),
    help=f"Longest recording, in steps of all episodes.  [default: {GIF_STEPS} for .gif, else {EPISODE_STEPS}]",
)
def record(run_dir: Path, out: Path, **options: Any) -> None:
    """Record the agent of the run folder RUN as a film."""
    from actor.agent import recording

    recording.record(run_dir, out, **options)
    click.echo(str(out))


@cli.command()
@click.argument("run_dir", metavar="RUN", type=_FOLDER)
def curve(run_dir: Path) -> None:
    """Draw the learning curve of the run in the folder RUN, as far as it has come, as its curve.png."""
    from common.run.folder import RunFolder
    from learner.record import curve

    folder = RunFolder(run_dir)
    settings = folder.settings()
    try:
        curve.draw(folder.metrics_file, folder.curve, settings.environment.id, settings.limits.until_return)
    except OSError as error:
        raise UnavailableError(f"{folder.curve}: {error.strerror}") from error
    click.echo(str(folder.curve))


@cli.command()
@click.argument("run_dir", metavar="RUN", type=_FOLDER)
@click.option("--from", "start", type=click.IntRange(0), help="Begin at this version: that of a checkpoint, or 0.")
@click.option("--to", "until", type=click.IntRange(0), help="End at this version.")
@click.option("--peer", metavar="NAME", help="List what the actor NAME contributed instead.")
@json_option
def replay(run_dir: Path, **options: Any) -> None:
    """Apply what the run in the folder RUN recorded (record.gradients) again, and compare the weights bit for bit.

    The exit code is 0 if they are equal, 3 if they differ or if something was applied twice, and 78 if the record is
    damaged or does not reach far enough to tell.
    """
    from deploy.cli import replay as command

    finish(command.run(run_dir, **options))


@cli.group(invoke_without_command=True)
@click.pass_context
def presets(ctx: click.Context) -> None:
    """List the tuned settings."""
    from common.run import presets as tuned

    if ctx.invoked_subcommand is None:
        for name in tuned.names():
            click.echo(f"{name:<24}{tuned.show(name).purpose}")


@presets.command("show")
@click.argument("name")
def presets_show(name: str) -> None:
    """Print the preset NAME as the TOML that a learner takes."""
    from common.run import presets as tuned

    click.echo(tuned.show(name).text, nl=False)


@cli.command("check-config")
@click.argument("file", type=_FILE)
@click.option("--parse-only", is_flag=True, help="Do not make environment and network: for a host without them.")
@click.option("--run-dir", type=_FOLDER, help="Check also whether the run there, if any, could go on with them.")
def check_config(file: Path, parse_only: bool, run_dir: Path | None) -> None:
    """Check the run settings in FILE (-: standard input) as a learner does at its start, without starting anything."""
    from deploy.cli.check_config import check

    check(file, run_dir, parse_only=parse_only)


@cli.command()
@learner_option
@click.option("--port", type=click.IntRange(1, 65534), default=DEFAULT_PORT, show_default=True)
def doctor(access: LearnerEndpoint | None, problem: str, port: int) -> None:
    """Check this machine (versions, ports, threads, GPU), and say how to mend what is wrong."""
    from deploy.cli.doctor import connectivity, finding, machine, software

    findings = software.look() + machine.look(port, Path("runs"))
    if problem:
        findings.append(finding.Finding("way in", "bad", problem))
    if access is not None:
        findings += connectivity.look(access)
    finish(finding.show(findings))


@cli.group()
def bench() -> None:
    """Measure on this machine which settings are faster."""


@bench.command()
@click.argument("env")
@click.option("--seconds", type=click.FloatRange(5), default=20.0, show_default=True, help="Length of each run.")
@click.option("--actors", type=RangeType(), help="As in `a3cd train`.")
@click.option("--algorithm", help="As in `a3cd train`.")
@click.option("--network", help="As in `a3cd train`.")
@click.option("--all", "also_actions", is_flag=True, help="Measure exchange.kind = actions, too.")
@set_option
@json_option
def exchange(env: str, **given: Any) -> None:
    """Train ENV for a short time with each exchange.kind, and say which one to set.

    The runs are those of `a3cd train`; their folders are deleted. Frames per second are not everything: with a smaller
    lag, a frame teaches more.
    """
    from deploy.cli.exchange_bench import exchange as run

    finish(run(env, **given))


def main() -> None:
    try:
        cli(prog_name="a3cd")
    except SystemExit as end:
        if isinstance(end.code, int):
            leave(end.code)
        raise


if __name__ == "__main__":
    main()
