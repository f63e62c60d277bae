"""Argument types and options that several commands of `a3cd` share."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import click

from common.errors import A3cdError, ConfigurationError
from common.host.addresses import Address
from common.host.security import access as endpoints
from common.host.security.access import LearnerEndpoint

_Command = Callable[..., Any]


class AddressType(click.ParamType[Address]):
    """tcp://host:port; `connect`: an address to connect to, not one to listen on (no `*`)."""

    name = "address"

    def __init__(self, connect: bool = True) -> None:
        self.connect = connect

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        try:
            address = value if isinstance(value, Address) else Address.parse(value)
            return address.to_connect() if self.connect else address
        except A3cdError as error:
            self.fail(str(error), param, ctx)


class LearnerType(AddressType):
    """A learner to connect to: its address, or an invitation, which is passed on as text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "#" in value:
            super().convert(value.partition("#")[0], param, ctx)
            return value
        return super().convert(value, param, ctx)


class RangeType(click.ParamType[tuple[int, int]]):
    """N or MIN..MAX actors."""

    name = "N|MIN..MAX"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        minimum, _, maximum = str(value).partition("..")
        try:
            bounds = int(minimum), int(maximum or minimum)
        except ValueError:
            self.fail(f"{value!r}: write a number, as in 4, or a range, as in 2..8", param, ctx)
        if not 1 <= bounds[0] <= bounds[1]:
            self.fail(f"{value!r}: a range has at least 1 actor, and its maximum is not below its minimum", param, ctx)
        return bounds


def _hold_on(_: click.Context, __: click.Parameter, lifeline: bool) -> None:
    """End with the process that started this one: when standard input is closed."""
    if lifeline:
        from common.host.service.lifeline import watch

        watch()


lifeline_option = click.option("--lifeline", is_flag=True, hidden=True, expose_value=False, callback=_hold_on)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
wait_option = click.option(
    "--wait",
    type=click.FloatRange(0),
    default=0.0,
    metavar="SECONDS",
    help="End with exit code 75 after this time without a learner; default: wait as long as it takes.",
)
nice_option = click.option(
    "--nice", type=click.IntRange(0, 19), default=0, help="Niceness of the process: with 10 it gives way to others."
)
module_option = click.option(
    "--allow-module",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="A module the learner may have this process import for its environment; may be repeated.",
)
set_option = click.option(
    "--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE", help="Any run setting; may be repeated."
)


def limit_options(time: str) -> Callable[[_Command], _Command]:
    """The seed of a run, and when it ends; `time`: what its seconds are of."""

    def add(command: _Command) -> _Command:
        for option in (
            click.option("--until-return", type=float, help="Stop at this mean training return."),
            click.option("--seconds", type=float, help=f"Stop after this {time}."),
            click.option("--episodes", type=int, help="Stop after N episodes."),
            click.option("--frames", type=int, help="Stop after N steps of the agents, all together."),
            click.option("--seed", type=int),
        ):
            command = option(command)
        return command

    return add


_keys_option = click.option(
    "--keys", type=click.Path(path_type=Path, file_okay=False), help="The key folder (see `a3cd keys --help`)."
)
_credential_option = click.option(
    "--credential", type=click.Path(path_type=Path, dir_okay=False), help="The credential for this learner."
)
_insecure_option = click.option(
    "--insecure", is_flag=True, help="Without keys, also beyond this machine: on a network that you trust."
)


def agent_options(command: _Command) -> _Command:
    """RUN and which agent of it plays."""
    which = "The newest checkpoint instead of the best."
    newest = click.option("--newest", "checkpoint", flag_value="newest", default="best", help=which)
    how = "Draw actions as in training, or take the best.  [default: as evaluation.sampled says: drawn in ALE games]"
    sampled = click.option("--sampled/--greedy", default=None, help=how)
    seed = click.option("--seed", type=int, default=0, show_default=True)
    run = click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path, file_okay=False))
    return run(seed(sampled(newest(command))))


def security_options(command: _Command) -> _Command:
    """--keys and --insecure, for a command that listens."""
    return _keys_option(_insecure_option(command))


def learner_argument(command: _Command) -> _Command:
    """LEARNER and the options of its keys; the command is called with `access`."""
    return _with_access(command, click.argument("learner", metavar="LEARNER", type=LearnerType()))


def learner_option(command: _Command) -> _Command:
    """The same as the option --learner; without it `access` is None, as where `problem` is why there is no way in."""
    what = "Also check the connection to this learner."
    option = click.option("--learner", metavar="LEARNER", type=LearnerType(), help=what)

    @wraps(command)
    def call(*, access: LearnerEndpoint | ConfigurationError | None, **others: Any) -> Any:
        if isinstance(access, ConfigurationError):
            return command(access=None, problem=str(access), **others)
        return command(access=access, problem="", **others)

    return _with_access(call, option, tolerant=True)


def _with_access(command: _Command, learner: Callable[[_Command], _Command], tolerant: bool = False) -> _Command:
    """tolerant: the command is called with the error where there is no way in."""

    @wraps(command)
    def call(
        *, learner: Address | str | None, keys: Path | None, credential: Path | None, insecure: bool, **others: Any
    ) -> Any:
        access: LearnerEndpoint | ConfigurationError | None = None
        try:
            if isinstance(learner, str):
                access = endpoints.accept(learner, keys)
                _hide_invitation()
            elif learner is not None:
                access = endpoints.find(learner, folder=keys, credential=credential, insecure=insecure)
        except ConfigurationError as error:
            if not tolerant:
                raise
            access = error
        return command(access=access, **others)

    return learner(_keys_option(_credential_option(_insecure_option(call))))


def _hide_invitation() -> None:
    """Start this program again with the plain address: every user can read the command line of a process."""
    if os.name == "posix":
        words = [word.partition("#")[0] if word.startswith("tcp://") else word for word in sys.orig_argv[1:]]
        os.execv(sys.executable, [sys.executable, *words])


def finish(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.exit(code)
