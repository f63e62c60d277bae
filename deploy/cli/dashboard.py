"""`a3cd dashboard`: a page in the browser that shows runs, of learners and of run folders."""

from __future__ import annotations

import os
import socket
import stat
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.host_header import Hosts
from common.host.service import logs
from common.host.service.signals import Signals
from common.wire import sockets
from deploy import completions
from deploy.arguments import LearnerType, ListenType, access_options, find_endpoints, finish, lifeline_option

if TYPE_CHECKING:
    from deploy.dashboard.door import Door
    from deploy.dashboard.showing import Watched

PORT = 8265
MIN_PASSWORD = 8
"""Fewest characters of a password, so that a guess a second for a year has no chance."""
ASK_SECONDS = 1.0
"""Time between two questions to a learner."""


class WatchedType(LearnerType):
    """A learner, as an address or an invitation, or a run folder, as a path or `last`."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from common.run.runs import LAST, find_run

        path = Path(str(value))
        if os.path.isdir(path) or str(path) == LAST:  # noqa: PTH112  Path.is_dir raises where it cannot be looked up
            return find_run(path)
        try:
            return super().convert(value, param, ctx)
        except click.UsageError as error:
            self.fail(f"{value} is no run folder, and no learner: {error.message}", param, ctx)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return completions.runs(incomplete)


@click.command()
@click.argument("runs", metavar="LEARNER|RUN...", nargs=-1, required=True, type=WatchedType())
@click.option(
    "--listen",
    type=ListenType(PORT),
    default=f"127.0.0.1:{PORT}",
    show_default=True,
    help="Where the page is; beyond this machine it wants a password.",
)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Ask for the password in the first line of this file.",
)
@click.option("--name", "names", multiple=True, metavar="HOST", help="Another name of this host; may be repeated.")
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=5.0,
    show_default=True,
    help="End with 75 if nobody answers for so many seconds at the start; 0: wait as long as it takes.",
)
@access_options
@lifeline_option
def dashboard(
    runs: tuple[Path | Address | str, ...],
    listen: Address,
    password_file: Path | None,
    names: tuple[str, ...],
    timeout: float,
    **security: Any,
) -> None:
    """Show runs on a page in the browser: those of learners (tcp://host:5555, an invitation) and of run folders.

    It only looks: it joins as an observer, and changes nothing.
    """
    logs.setup("dashboard")
    _require_extra()
    from deploy.dashboard.showing import show

    door, hosts = _door(listen, password_file), _hosts(listen, names)
    watched = _watched(runs, security)
    listener = sockets.reserve(listen, option="--listen")
    with listener, Signals() as signals:
        show(watched, listener, hosts, door, stopping=lambda: signals.requested is not None, timeout=timeout)
        finish(signals.exit_code)


def _require_extra() -> None:
    """Raise ConfigurationError where a library of the dashboard is missing."""
    try:
        import bokeh
        import tornado  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"a3cd dashboard needs {error.name}, which is not installed here: pip install 'a3cd[dashboard]'"
        ) from error
    del bokeh


def _door(listen: Address, file: Path | None) -> Door | None:
    """What asks for the password; None: everybody on this machine may look. Raises ConfigurationError."""
    from deploy.dashboard.door import Door

    if file is None:
        if listen.loopback:
            return None
        raise ConfigurationError(
            f"--listen {listen.host}:{listen.port} is open to the network: give a --password-file, or listen on "
            "127.0.0.1 and reach it through ssh -L"
        )
    return Door(read_password(file))


def read_password(file: Path) -> str:
    """The first line of a file; raises ConfigurationError, also if others can use it or its group can write it."""
    try:
        mode = file.stat().st_mode
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file}: is no text (UTF-8)") from None
    if os.name == "posix" and mode & (stat.S_IWGRP | stat.S_IRWXO):
        raise ConfigurationError(f"{file} is open to others: chmod 600 {file}")
    password = text.partition("\n")[0].rstrip("\r")
    if len(password) < MIN_PASSWORD:
        raise ConfigurationError(f"{file}: its first line is the password, and needs {MIN_PASSWORD} characters or more")
    return password


def _hosts(listen: Address, names: tuple[str, ...]) -> Hosts:
    if listen.loopback:
        return Hosts(names, loopback=True)
    return Hosts({listen.host, socket.gethostname(), socket.getfqdn(), *names}, loopback=False)


def _watched(runs: tuple[Path | Address | str, ...], security: dict[str, Any]) -> list[Watched]:
    """Each run with the function that fills it until an event is set. Raises ConfigurationError."""
    from deploy.cli.observer import Observer
    from deploy.dashboard.folder import FolderReader
    from deploy.dashboard.following import follow_folder, follow_learner
    from deploy.dashboard.watched import WatchedRun

    now = time.time()
    endpoints = iter(find_endpoints([run for run in runs if not isinstance(run, Path)], **security))
    watched: list[Watched] = []
    for one in runs:
        if isinstance(one, Path):
            reader = FolderReader(one)
            reader.record()
            run = WatchedRun("folder", str(one), now)
            watched.append((run, partial(follow_folder, run, reader)))
        else:
            access = next(endpoints)
            run = WatchedRun("learner", str(access.address), now)
            watched.append((run, partial(follow_learner, run, partial(Observer, access, ASK_SECONDS))))
    return watched
