"""`a3cd learner`: read its command line, and the settings with which a learner begins or goes on."""

import os
from pathlib import Path
from typing import Any

import click

from common.errors import EXIT_DONE
from common.host.addresses import Address
from common.host.service import logs
from deploy.arguments import (
    allowed_option,
    bind_option,
    finish,
    lifeline_option,
    metrics_options,
    security_options,
    set_option,
)

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.option("--config", type=_FILE, help="The run settings (TOML).")
@bind_option("Where to listen")
@click.option("--listeners", hidden=True, help="Descriptors of the two listening sockets, inherited.")
@click.option("--settings", "source", type=int, hidden=True, help="Instead of --config a descriptor, inherited.")
@click.option("--no-curve", is_flag=True, help="Draw no learning curve at the end (see `a3cd curve`).")
@click.option("--run-dir", type=_FOLDER, help="Default: runs/ENV-DATE-TIME.")
@click.option("--resume", is_flag=True, help="Go on with the run in --run-dir (last: the newest).")
@click.option("--resume-or-create", is_flag=True, help="--resume if --run-dir holds a run, else begin one there.")
@allowed_option("peers")
@set_option
@security_options
@metrics_options
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
    metrics: Address | None,
    **security: Any,
) -> None:
    """Train the network with what actors send, send them weights, and tell launchers how many actors to run."""
    from common.run.folder import RunFolder, default_path
    from common.run.runs import find_run
    from common.settings.toml import override, parse, read
    from common.wire import sockets
    from learner.authentication import LearnerKeys
    from learner.daemon import load, run

    logs.setup("learner")
    if (resume or resume_or_create) and run_dir is None:
        raise click.UsageError("--resume needs --run-dir")
    if resume_or_create and run_dir is not None:
        resume = resume or RunFolder(run_dir).holds_run()
    where = find_run(run_dir) if resume and run_dir is not None else run_dir
    settings = None
    if source is not None:
        load()  # the settings come once they have been checked
        with os.fdopen(source, encoding="utf-8") as pipe:
            text = pipe.read()
        if not text:
            finish(EXIT_DONE)  # they were refused, or the sender is gone
        settings = parse(text, "settings")
    elif config is not None:
        settings = override(read(config), assignments)
    elif not resume or where is None:
        raise click.UsageError("a learner needs --config FILE (`a3cd init ENV` writes one), or a run to --resume")
    elif assignments:
        settings = override(RunFolder(where).settings(), assignments)
    own_keys = LearnerKeys.find(bind, **security)
    inherited = None if listeners is None else sockets.inherit(listeners)
    finish(
        run(
            settings,
            bind=bind,
            listeners=inherited,
            keys=own_keys,
            run_dir=where or default_path(settings.environment.id if settings else ""),
            resume=resume,
            curve=not no_curve,
            metrics=metrics,
        )
    )
