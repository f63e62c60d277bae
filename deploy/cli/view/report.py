"""`a3cd status`: the state of a run on stdout once, or the live panel until the run ends."""

import json
import logging
import sys

import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.text import Text

from common.host.security.access import LearnerEndpoint
from common.host.service.logs import printable
from common.run.status import RunStatus
from common.settings.sections import Environment
from deploy.cli import observer
from deploy.cli.view.formatting import size
from deploy.cli.view.panel import (
    actors_table,
    figures,
    frame,
    hosts_table,
    keys_table,
    launchers_table,
    notes,
    progress,
    relays_table,
    warning_lines,
)
from deploy.cli.view.progress import open_view

_log = logging.getLogger(__name__)


def run(access: LearnerEndpoint, *, watch: bool, as_json: bool, timeout: float) -> None:
    """Show the run at `access`.

    as_json: print the `RunStatus` as one JSON object; with `watch`, one on each line.
    Raises UnavailableError when no learner has answered for `timeout` seconds.
    """
    if watch:
        with open_view() as view:
            show = _print_json if as_json else view.show
            for status in observer.watch(access, timeout, view.say):
                show(status)
    else:
        show = _print_json if as_json else _print
        show(observer.fetch(access, timeout, _log.info))


def extra(access: LearnerEndpoint, timeout: float) -> str:
    """The extras of a3cd that actors of the run at `access` need, separated by commas; raises as `run`."""
    from common.rl.environments.names import extra as extra_of  # loads gymnasium, which other commands need not do

    status = observer.fetch(access, timeout, _log.info)
    computed = "" if status.exchange == "actions" or status.network == "dense" else "torch"
    return ",".join(sorted({extra_of(Environment(id=status.env)), computed} - {""}))


def _print_json(status: RunStatus) -> None:
    click.echo(json.dumps(msgspec.to_builtins(status)))


def _print(status: RunStatus) -> None:
    Console(file=sys.stdout).print(render(status))


def render(status: RunStatus) -> RenderableType:
    """Like the live panel, but with all actors, launchers and warnings in full."""
    blocks: list[RenderableType] = [figures(status, (), whole=True), Text(), progress(status)]
    if status.actors:
        blocks += [Text(), actors_table(status.actors, len(status.actors))]
    if status.relays:
        blocks += [Text(), relays_table(status.relays, whole=True)]
    if status.launchers:
        blocks += [Text(), launchers_table(status.launchers)]
    if status.hosts:
        blocks += [Text(), hosts_table(status.hosts)]
    if status.keys:
        blocks += [Text(), keys_table(status.keys)]
    if lines := notes(status):
        blocks += [Text(), *warning_lines(lines, whole=True)]
    left = "" if status.disk_free is None else f" ({size(status.disk_free)} left on its disk)"
    where = Text(
        f"run {printable(status.run)}, epoch {status.epoch}, in {printable(status.run_dir)}{left}", style="dim"
    )
    return frame(status, Group(*blocks, Text(), where))
