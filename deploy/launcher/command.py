"""`a3cd launcher`: its options, and which way to start actors each belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from common.errors import ConfigurationError
from common.host.security.access import LearnerEndpoint
from common.host.service import logs
from deploy.backends.hosts import MOST_SLOTS
from deploy.backends.systemd import UNIT
from deploy.cli.arguments import finish, hold_on, learner_argument, lifeline_option, modules_option
from deploy.launcher.options import BELONGS, WAYS, gather, with_slots

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command()
@learner_argument
@click.option(
    "--slots", type=click.IntRange(1, MOST_SLOTS), help="Most actors to run; with ssh: those that the hosts leave open."
)
@click.option("--start-with", type=click.Choice(WAYS), default="process", show_default=True)
@click.option("--name", default="", help="How this launcher is called in status; default: host (and process id).")
@click.option("--user", is_flag=True, help="systemd: units of your own manager, not the system's.")
@click.option("--unit", default=UNIT, show_default=True, help="systemd: what stands before the slot's number.")
@click.option("--host", multiple=True, metavar="USER@HOST[:SLOTS]", help="ssh: a host for actors; may be repeated.")
@click.option("--hosts", type=_FILE, help="ssh: a file with such a host per line.")
@click.option("--ssh-option", multiple=True, metavar="KEY=VALUE", help="ssh: as ssh's -o; may be repeated.")
@click.option("--ssh-config", type=_FILE, help="ssh: as ssh's -F.")
@click.option("--remote", metavar="PATH", help="ssh, slurm: a3cd on the other hosts.  [default: a3cd; this one's path]")
@click.option("--sbatch-option", multiple=True, metavar="KEY[=VALUE]", help="slurm: as sbatch's --KEY=VALUE.")
@click.option("--command", metavar="'PROGRAM ARG ...'", help="command: what to run, with {count} and {learner} in it.")
@click.option("--warm", type=click.IntRange(0), default=0, hidden=True, help="Actors to start before the first order.")
@modules_option
@lifeline_option
@click.pass_context
def launcher(
    ctx: click.Context,
    /,
    access: LearnerEndpoint,
    slots: int | None,
    start_with: str,
    name: str,
    warm: int,
    modules: tuple[str, ...],
    lifeline: bool,
    **given: Any,
) -> None:
    """Start and stop actors, as many as the learner at LEARNER orders, in the way that --start-with says.

    process: children of this launcher, which end with it. systemd: units a3cd-actor@0, @1, ... ssh: on other hosts.
    slurm: tasks of job arrays. command: any program that is told the number. All but the first outlive a launcher
    that is restarted, and are found again; Ctrl-C ends them too.
    """
    from deploy.launcher.start import start

    logs.setup("launcher")
    _refuse_strangers(ctx, start_with)
    try:
        options, slots = with_slots(gather(start_with, **given), start_with, slots)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    hold_on(lifeline)
    finish(start(access, slots=slots, start_with=start_with, name=name, warm=warm, modules=modules, options=options))


def _refuse_strangers(ctx: click.Context, start_with: str) -> None:
    """Options of another way are mistakes, and never quietly without effect."""
    for parameter in ctx.command.params:
        name = parameter.name or ""
        owners = BELONGS.get(name)
        if owners and start_with not in owners and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            known = " or ".join(owners)
            raise click.UsageError(f"{parameter.opts[0]} belongs to --start-with {known}, not to {start_with}")
