"""The commands of two daemons: `a3cd learner` and `a3cd actor`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from common.host.addresses import DEFAULT_PORT, Address
from common.host.security.access import LearnerEndpoint
from common.host.service import logs
from deploy.cli.arguments import (
    AddressType,
    finish,
    learner_argument,
    lifeline_option,
    security_options,
    set_option,
)

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option("--config", type=_FILE, help="The run settings (TOML).")
@click.option(
    "--bind",
    type=AddressType(connect=False),
    default=f"tcp://127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    help="Where to listen; the next port is used for the weights.",
)
@click.option("--listeners", hidden=True, help="Descriptors of the two listening sockets, inherited.")
@click.option("--run-dir", type=click.Path(path_type=Path, file_okay=False), help="Default: runs/ENV-DATE-TIME.")
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
    run_dir: Path | None,
    resume: bool,
    resume_or_create: bool,
    keys: Path | None,
    allowed: Path | None,
    insecure: bool,
    assignments: tuple[str, ...],
) -> None:
    """Train the network with what actors send, send them weights, and tell launchers how many actors to run."""
    from common.run.folder import RunFolder, default_path
    from common.settings.toml import override, read
    from common.wire import sockets
    from learner.authentication import LearnerKeys
    from learner.daemon import run

    logs.setup("learner")
    if (resume or resume_or_create) and run_dir is None:
        raise click.UsageError("--resume needs --run-dir")
    if resume_or_create and run_dir is not None:
        resume = resume or RunFolder(run_dir).run_file.exists()
    settings = None
    if config is not None:
        settings = override(read(config), assignments)
    elif assignments:
        raise click.UsageError("--set needs --config")
    elif not resume:
        raise click.UsageError("a learner needs --config FILE (see `a3cd presets show NAME`), or a run to --resume")
    own_keys = LearnerKeys.find(bind, keys=keys, allowed=allowed, insecure=insecure)
    where = run_dir or default_path(settings.environment.id if settings else "")
    inherited = None if listeners is None else sockets.inherit(listeners)
    finish(run(settings, bind=bind, listeners=inherited, keys=own_keys, run_dir=where, resume=resume))


@click.command()
@learner_argument
@click.option("--name", default="", help="This actor's name in status; default: host and process id.")
@click.option("--launcher", default="", hidden=True)
@click.option(
    "--nice", type=click.IntRange(0, 19), default=0, help="Niceness of the process: with 10 it gives way to others."
)
@click.option(
    "--allow-module",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="A module the learner may have actors import for its environment; may be repeated.",
)
@lifeline_option
def actor(access: LearnerEndpoint, name: str, launcher: str, nice: int, modules: tuple[str, ...]) -> None:
    """Play for the learner at LEARNER: tcp://host:5555, or an invitation. Its welcome brings all other settings."""
    from actor.daemon import run

    logs.setup("actor")
    if nice and hasattr(os, "nice"):
        os.nice(nice)
    finish(run(access, name=name, launcher=launcher, modules=modules))
