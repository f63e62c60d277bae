"""The options of `a3cd launcher` that belong to some ways of starting actors: one table, with the check of each."""

import re
import shlex
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from common.errors import ConfigurationError
from deploy.backends import hosts
from deploy.backends.command import COUNT
from deploy.backends.slurm import SET_HERE
from deploy.backends.systemd import UNIT
from deploy.ssh import STRICT

WAYS = ("process", "systemd", "ssh", "slurm", "command")


class Checked(click.ParamType[Any]):
    """A word read by a function that raises ConfigurationError."""

    name = "text"

    def __init__(self, read: Callable[[str], Any]) -> None:
        self.read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.read(value) if isinstance(value, str) else value
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)


class WayOption(click.Option):
    """An option of some of the ways."""

    def __init__(self, name: str, ways: tuple[str, ...], help: str = "", **options: Any) -> None:
        super().__init__([name], help=f"{', '.join(ways)}: {help}" if help else None, **options)
        self.ways = ways


def _form(pattern: str, how: str, taken: Collection[str] = ()) -> Checked:
    """A word of this form, told `how` to write it; its group `key` is none of `taken`."""

    def read(text: str) -> str:
        match = re.fullmatch(pattern, text, re.ASCII)
        if match is None:
            raise ConfigurationError(f"{text!r}: {how}")
        if taken and match["key"].lower() in taken:
            raise ConfigurationError(f"{text!r}: a3cd sets {match['key']} itself")
        return text

    return Checked(read)


def split_command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigurationError(f"{text!r}: {error}") from None
    if not any(COUNT in word for word in words[1:]):
        raise ConfigurationError(f"{text!r}: write PROGRAM ARG ... with {COUNT} among the arguments")
    return words


UNIT_NAME = _form(r"[A-Za-z0-9:_.][A-Za-z0-9:_.-]*@", f"write a template's name up to its @, as in {UNIT}")
SBATCH_OPTION = _form(
    r"(?P<key>[a-z][a-z-]*)(?:=[^\r\n\0]*)?", "write KEY=VALUE without dashes, as in partition=cpu", SET_HERE
)
SSH_OPTION = _form(
    r"(?P<key>[A-Za-z0-9]+)=[^\r\n\0]+",
    "write an option of ssh as KEY=VALUE, as in Port=2222",
    {option.partition("=")[0].lower() for option in STRICT},
)
PROGRAM = _form(  # nothing that a shell would change
    r"(?:~/|/)?[A-Za-z0-9_.+][A-Za-z0-9_.+/-]*",
    "no path of a3cd: letters, digits and any of ._+-/ as in /opt/a3cd/bin/a3cd",
)
_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_HOSTS = Checked(lambda text: hosts.read(Path(text)))
OPTIONS = (
    WayOption("--user", ("systemd",), "units of your own manager, not the system's.", is_flag=True),
    WayOption(
        "--unit", ("systemd",), "a unit's name before the slot's number.", type=UNIT_NAME, default=UNIT,
        show_default=True,
    ),
    WayOption(
        "--host", ("ssh",), "a host for actors; may be repeated.", type=Checked(hosts.parse), multiple=True,
        metavar="USER@HOST[:SLOTS]",
    ),
    WayOption("--hosts", ("ssh",), "a file with such a host per line.", type=_HOSTS, metavar="FILE"),
    WayOption(
        "--ssh-option", ("ssh",), "as ssh's -o; may be repeated.", type=SSH_OPTION, multiple=True, metavar="KEY=VALUE"
    ),
    WayOption("--ssh-config", ("ssh",), "as ssh's -F.", type=_FILE),
    WayOption(
        "--remote", ("ssh", "slurm"), "a3cd on the other hosts.  [default: a3cd; this one's path]", type=PROGRAM,
        metavar="PATH",
    ),
    WayOption(
        "--sbatch-option", ("slurm",), "as sbatch's --KEY=VALUE.", type=SBATCH_OPTION, multiple=True,
        metavar="KEY[=VALUE]",
    ),
    WayOption(
        "--command", ("command",), "what to run, with {count} and {learner} in it.", type=Checked(split_command),
        metavar="'PROGRAM ARG ...'",
    ),
    WayOption(
        "--allow-module", ("process", "ssh", "slurm"), "a module the learner may have actors import for its "
        "environment; may be repeated.", multiple=True, metavar="MODULE",
    ),
    WayOption("--prestart", ("process",), type=click.IntRange(0), default=0, hidden=True),
)  # fmt: skip


def check_ways(ctx: click.Context, start_with: str) -> None:
    """Refuses an option that does not belong to this way: it would have no effect."""
    for option in OPTIONS:
        given = ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and start_with not in option.ways:
            ways = " or ".join(option.ways)
            raise click.UsageError(f"{option.opts[0]} belongs to --start-with {ways}, not to {start_with}")
