"""`a3cd track`: a run in Weights & Biases or MLflow."""

from __future__ import annotations

import select
from pathlib import Path

import click

from common.host.service import logs
from deploy.arguments import finish, lifeline_option, run_argument
from deploy.tracking.tracker import TRACKERS


@click.command()
@run_argument
@click.option("--to", "kind", type=click.Choice(TRACKERS), required=True)
@click.option("--project", default="a3cd", show_default=True, help="Of Weights & Biases; of MLflow the experiment.")
@click.option("--name", default="", help="Of the run there; default: that of its folder.")
@click.option("--uri", default="", help="Of the server or database; default: as for every program of the tracker's.")
@click.option("--offline", is_flag=True, help="Keep it in the run folder, for `wandb sync` (Weights & Biases only).")
@lifeline_option
def track(run_dir: Path, kind: str, project: str, name: str, uri: str, offline: bool) -> None:
    """Follow the run in the folder RUN, while it goes on or afterwards, and show it in Weights & Biases or MLflow.

    Given again, it goes on where it was. The training does not notice it: it reads the run folder only.
    """
    from common.host.service.signals import Signals
    from common.run.folder import RunFolder
    from deploy.tracking.follow import Follower
    from deploy.tracking.tracker import Target, require

    logs.setup("track")
    if offline and kind != "wandb":
        raise click.UsageError("--offline is for wandb: MLflow writes to a database of your own where --uri says so")
    require(kind)
    follower = Follower(RunFolder(run_dir), kind, Target(project, uri, offline), name)
    with Signals() as signals:

        def wait(seconds: float) -> bool:
            select.select([signals], [], [], seconds)
            return signals.requested is not None

        outcome = follower.follow(wait)
        click.echo(f"{run_dir}: {outcome.rows:,} rows told to {kind}; the run is {outcome.state}")
        code = signals.exit_code
    finish(code)
