"""The command `a3cd launcher`."""

from __future__ import annotations

from typing import Any

import click

from common.errors import ConfigurationError
from common.host.security.access import LearnerEndpoint
from common.host.service import logs
from deploy.arguments import finish, learner_argument, lifeline_option
from deploy.backends.hosts import MOST_SLOTS
from deploy.launcher.options import OPTIONS, WAYS, check_ways


@click.command()
@learner_argument
@click.option(
    "--slots", type=click.IntRange(1, MOST_SLOTS), help="Most actors to run; with ssh: of all hosts without :SLOTS."
)
@click.option("--start-with", type=click.Choice(WAYS), default="process", show_default=True)
@click.option("--name", default="", help="How this launcher is called in status; default: host (and process id).")
@lifeline_option
@click.pass_context
def launcher(
    ctx: click.Context,
    /,
    access: LearnerEndpoint,
    slots: int | None,
    start_with: str,
    name: str,
    **options: Any,
) -> None:
    """Start and stop actors, as many as the learner at LEARNER orders, in the way that --start-with says.

    process: children of this launcher, which end with it. systemd: units a3cd-actor@0, @1, ... ssh: units or children
    on other hosts. slurm: tasks of job arrays. command: any program that is told the number. All but the first outlive
    a launcher that is restarted, and are found again; Ctrl-C ends them too.
    """
    from deploy.launcher.shell import run
    from deploy.launcher.start import launcher_name, places

    logs.setup("launcher")
    check_ways(ctx, start_with)
    name = access.name(name or launcher_name(start_with))
    try:
        found = places(start_with, access, name, slots, options)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    finish(run(access, found, name=name, prestart=options["prestart"]))


launcher.params += OPTIONS
