"""The `a3cd` command: read the command line and hand plain values to the part that does the work.

Each part is imported only when its command runs: `a3cd --help` and the launcher need no torch.
"""

import importlib
import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO

import click

from common.errors import EXIT_SIGINT, A3cdError, TorchMissingError, UnavailableError
from common.host.addresses import DEFAULT_PORT
from common.host.process import give_way
from common.host.security.access import LearnerEndpoint
from common.host.service import logs
from common.host.service.leaving import leave
from deploy import completions
from deploy.arguments import (
    RangeType,
    env_argument,
    finish,
    json_option,
    learner_argument,
    learner_option,
    lifeline_option,
    module_option,
    nice_option,
    run_argument,
    set_option,
    timeout_option,
    wait_option,
)
from deploy.cli.group import HelpfulGroup

_ELSEWHERE = {
    "checkpoint": "deploy.cli.control",
    "completion": "deploy.cli.completion",
    "dashboard": "deploy.cli.dashboard",
    "deploy": "deploy.install.command",
    "evaluate": "deploy.cli.agents",
    "evaluator": "deploy.cli.evaluator",
    "export": "deploy.cli.agents",
    "init": "deploy.cli.init",
    "keys": "deploy.keys",
    "launcher": "deploy.launcher.command",
    "learner": "deploy.cli.learner",
    "play": "deploy.cli.agents",
    "record": "deploy.cli.agents",
    "relay": "deploy.cli.relay",
    "runs": "deploy.cli.runs",
    "scale": "deploy.cli.control",
    "simulate": "deploy.cli.simulate",
    "stop": "deploy.cli.control",
    "track": "deploy.cli.track",
    "train": "deploy.cli.training",
    "tune": "deploy.cli.tune.command",
}
"""Module of each command; it is loaded only when that command is asked for."""
_INTERNAL = {"ray-driver": "deploy.backends.ray_driver"}
"""The same, for commands that only a3cd runs."""
_SECTIONS = {
    "Training": ("train", "presets", "init", "check-config", "tune", "bench", "simulate"),
    "Daemons": ("learner", "actor", "launcher", "evaluator", "relay"),
    "A run that goes on": ("status", "dashboard", "track", "checkpoint", "scale", "stop"),
    "Run folders": ("runs", "curve", "evaluate", "play", "record", "export", "replay"),
    "Machines": ("doctor", "keys", "deploy", "completion"),
}
"""Commands by section, as the help shows them."""
_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


class Group(HelpfulGroup):
    """A group whose commands end with one line and an exit code, not a traceback, for errors that a person can mend."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except A3cdError as error:
            ctx.exit(logs.fail(error))
        except PermissionError as error:  # of Path.exists, for one, below a folder that this user may not enter
            if error.filename is None:
                raise
            ctx.exit(logs.fail(UnavailableError(f"{error.filename}: {error.strerror}")))
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            ctx.exit(logs.fail(TorchMissingError(f"a3cd {ctx.invoked_subcommand}")))
        except KeyboardInterrupt:
            ctx.exit(EXIT_SIGINT)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_ELSEWHERE])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self._command(ctx, name).get_short_help_str(60)) for name in names])

    def _command(self, ctx: click.Context, name: str) -> click.Command:
        command = self.get_command(ctx, name)
        assert command is not None
        return command

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _ELSEWHERE.get(cmd_name) or _INTERNAL.get(cmd_name)
        if module is None:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(importlib.import_module(module), cmd_name.replace("-", "_"))
        return command


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="a3cd", prog_name="a3cd")
def cli() -> None:
    """Asynchronous actor-learner reinforcement learning as ordinary network daemons.

    `a3cd train CartPole-v1` trains on this machine. With more machines: `a3cd learner` on one, `a3cd actor` or
    `a3cd launcher` with its address on the others.
    """
    logs.setup("a3cd")
    # More threads do not speed up networks this small, and slow down the other daemons. Numpy reads this when loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


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
    give_way(nice)
    finish(run(access, name=name, launcher=launcher, modules=modules, wait=wait))


@cli.command()
@learner_argument
@click.option("--watch", is_flag=True, help="Stay, and show the live panel.")
@json_option
@timeout_option
@click.option("--extra", is_flag=True, hidden=True, help="Print the extras of a3cd that actors of the run need.")
def status(access: LearnerEndpoint, watch: bool, as_json: bool, timeout: float, extra: bool) -> None:
    """Show the state of the run at LEARNER."""
    from deploy.cli.view import report

    if extra:
        click.echo(report.extra(access, timeout))
        return
    report.run(access, watch=watch, as_json=as_json, timeout=timeout)


@cli.command()
@run_argument
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
@run_argument
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


@cli.group(cls=HelpfulGroup, invoke_without_command=True)
@click.pass_context
def presets(ctx: click.Context) -> None:
    """List the tuned settings."""
    from common.run import presets as tuned

    if ctx.invoked_subcommand is None:
        for name in tuned.names():
            click.echo(f"{name:<24}{tuned.show(name).purpose}")


@presets.command("show")
@click.argument("name", shell_complete=completions.presets)
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
@env_argument()
@click.option("--seconds", type=click.FloatRange(5), default=20.0, show_default=True, help="Length of each run.")
@click.option("--actors", type=RangeType(), help="As in `a3cd train`.")
@click.option("--algorithm", help="As in `a3cd train`.", shell_complete=completions.setting("algorithm.kind"))
@click.option("--network", help="As in `a3cd train`.", shell_complete=completions.setting("network.kind"))
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


def _open_what_was_closed() -> None:
    """Open the standard streams that this process was started without.

    Else their numbers would go to sockets and pipes, which would get what libraries write to standard error.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def main() -> None:
    _open_what_was_closed()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")  # a locale may lack what the tables are drawn with
    if "_A3CD_COMPLETE" in os.environ:
        from deploy.cli.completion import install

        install()
    try:
        cli(prog_name="a3cd")
    except SystemExit as end:
        if isinstance(end.code, int):
            leave(end.code)
        raise
    except OSError as error:
        if not _is_stuck(sys.stdout):
            raise
        leave(logs.fail(UnavailableError(f"standard output cannot be written: {error.strerror}")))


def _is_stuck(output: TextIO) -> bool:
    """Whether a line cannot be written, as on a full disk; else Python would try again as it ends, and say so."""
    try:
        print(file=output, flush=True)
    except OSError:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), output.fileno())
        return True
    return False


if __name__ == "__main__":
    main()
