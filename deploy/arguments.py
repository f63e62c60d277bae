"""Argument types and options that several commands of `a3cd` share."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from common.errors import A3cdError, ConfigurationError
from common.host.addresses import DEFAULT_PORT, Address
from common.host.security import access as endpoints
from common.host.security.access import LearnerEndpoint
from deploy import completions

_Command = Callable[..., Any]


METRICS_PORT = 9464
"""Default port of --metrics: the one that exporters of metrics usually take."""


class AddressType(click.ParamType[Address]):
    """An address, tcp://host:port. `connect`: it is one to connect to, not one to listen on (no `*`)."""

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


class RunType(click.Path):
    """The folder of an existing run, or `last`."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from common.run.runs import find_run

        return find_run(Path(os.fsdecode(super().convert(value, param, ctx))))

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return completions.runs(incomplete)


class ListenType(click.ParamType[Address]):
    """Where an HTTP server listens: HOST:PORT, PORT (on 127.0.0.1), or HOST (with the default port)."""

    name = "HOST:PORT"

    def __init__(self, port: int) -> None:
        """`port`: the default."""
        self.port = port

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        if isinstance(value, Address):
            return value
        text = str(value).removeprefix("http://").rstrip("/")
        host, _, port = text.rpartition(":")
        given = port.isascii() and port.isdigit()
        if given and not host:
            text = f"127.0.0.1:{port}"
        try:
            address = Address.parse(text)
        except A3cdError as error:
            self.fail(f"{error}; write HOST:PORT, as in 127.0.0.1:{self.port}", param, ctx)
        if text.endswith(":*"):
            self.fail(f"{value!r} has no port: write HOST:PORT, as in 127.0.0.1:{self.port}", param, ctx)
        return address if given else address.with_port(self.port)


class NumberType(click.ParamType[float]):
    """A number as a person writes it: 1e6 and 2_000_000 are accepted even where it must be whole."""

    def __init__(self, whole: bool, example: str) -> None:
        self.name = "integer" if whole else "float"
        self._whole, self._example = whole, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number = float(value)
            if self._whole and number != int(number):
                raise ValueError
        except (ValueError, OverflowError):
            kind = "whole number" if self._whole else "number"
            self.fail(f"{value!r} is no {kind}: write it in full, as in {self._example}", param, ctx)
        return int(number) if self._whole else number


class RangeType(click.ParamType[tuple[int, int]]):
    """N or MIN..MAX actors, at least `least`."""

    name = "N|MIN..MAX"

    def __init__(self, least: int = 1) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        minimum, _, maximum = str(value).partition("..")
        try:
            bounds = int(minimum), int(maximum or minimum)
        except ValueError:
            self.fail(f"{value!r}: write a number, as in 4, or a range, as in 2..8", param, ctx)
        if not self._least <= bounds[0] <= bounds[1]:
            least = f"a range has at least {self._least} actor{'' if self._least == 1 else 's'}"
            self.fail(f"{value!r}: {least}, and its maximum is not below its minimum", param, ctx)
        return bounds


def _hold_on(_: click.Context, __: click.Parameter, lifeline: bool) -> None:
    """End this process when the one that started it ends, and standard input is closed thereby."""
    if lifeline:
        from common.host.service.lifeline import watch

        watch()


lifeline_option = click.option("--lifeline", is_flag=True, hidden=True, expose_value=False, callback=_hold_on)
timeout_option = click.option(
    "--timeout", type=float, default=5.0, show_default=True, help="Seconds to wait for the learner."
)
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


class ModuleType(click.ParamType[str]):
    """A module, given by its name or by the name of its file in the working folder."""

    name = "module"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from common.host.modules import canonical, module_of

        try:
            return module_of(canonical(f"{value}:_"))
        except A3cdError as error:
            self.fail(str(error).removeprefix(f"{value}:_: "), param, ctx)


module_option = click.option(
    "--allow-module",
    "modules",
    multiple=True,
    type=ModuleType(),
    metavar="MODULE",
    help="A module the learner may have this process import for its environment; may be repeated.",
)
set_option = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    help="Any run setting; may be repeated.",
    shell_complete=completions.settings,
)
algorithm_option = click.option(
    "--algorithm",
    help="algorithm.kind, with the preset's settings for it.",
    shell_complete=completions.setting("algorithm.kind"),
)
network_option = click.option("--network", help="network.kind.", shell_complete=completions.setting("network.kind"))


def env_argument(required: bool = True) -> Callable[[_Command], _Command]:
    """The argument ENV."""
    return click.argument("env", required=required, shell_complete=completions.environments)


def limit_options(time: str) -> Callable[[_Command], _Command]:
    """Options for the seed of a run and for when it ends; `time`: what --seconds counts, in the words of the help."""

    def add(command: _Command) -> _Command:
        for option in (
            click.option("--until-return", type=float, help="Stop at this mean training return."),
            click.option("--seconds", type=NumberType(False, "90"), help=f"Stop after this {time}."),
            click.option("--episodes", type=NumberType(True, "500"), help="Stop after N episodes."),
            click.option(
                "--frames",
                type=NumberType(True, "100000 or 1e5"),
                help="Stop after N steps of the agents, all together.",
            ),
            click.option("--seed", type=int),
        ):
            command = option(command)
        return command

    return add


newest_option = click.option(
    "--newest", "checkpoint", flag_value="newest", default="best", help="The newest checkpoint instead of the best."
)
run_argument = click.argument("run_dir", metavar="RUN", type=RunType())
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
    """The argument RUN, and options that say which of its agents plays and how."""
    how = "Draw actions as in training, or take the best.  [default: as the run's evaluation.sampled says]"
    sampled = click.option("--sampled/--greedy", default=None, help=how)
    seed = click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
    return run_argument(seed(sampled(newest_option(command))))


def bind_option(where: str) -> Callable[[_Command], _Command]:
    """--bind, for the two ports of a learner or a relay; `where`: the beginning of its help."""
    return click.option(
        "--bind",
        type=AddressType(connect=False),
        default=f"tcp://127.0.0.1:{DEFAULT_PORT}",
        show_default=True,
        help=f"{where}; the next port is used for the weights.",
    )


def allowed_option(peers: str) -> Callable[[_Command], _Command]:
    """--allowed, the file of the keys that a learner or a relay lets in; `peers`: who holds them, for the help."""
    file = click.Path(path_type=Path, dir_okay=False)
    return click.option(
        "--allowed", type=file, help=f"The file of allowed {peers}; default: `allowed` in the key folder."
    )


def security_options(command: _Command) -> _Command:
    """--keys and --insecure, for a command that listens."""
    return _keys_option(_insecure_option(command))


def metrics_options(command: _Command) -> _Command:
    """--metrics and --insecure-metrics; the command is called with `metrics`, an Address or None.

    There are no keys for metrics. An address that other machines can reach therefore needs --insecure-metrics, or the
    call raises ConfigurationError.
    """

    @wraps(command)
    def call(*, metrics: Address | None, insecure_metrics: bool, **others: Any) -> Any:
        if metrics is not None and not metrics.loopback and not insecure_metrics:
            raise ConfigurationError(
                f"--metrics {metrics.host}:{metrics.port} can be read from other hosts, by anybody: "
                "--insecure-metrics allows it, on a network that you trust; "
                f"--metrics {metrics.port} is for this machine alone"
            )
        return command(metrics=metrics, **others)

    where = "Serve metrics for Prometheus at http://HOST:PORT/metrics; HOST is 127.0.0.1 if left out."
    call = click.option("--metrics", type=ListenType(METRICS_PORT), help=where)(call)
    insecure = "Serve them also beyond this machine, to anybody: on a network that you trust."
    return click.option("--insecure-metrics", is_flag=True, help=insecure)(call)


def learner_argument(command: _Command) -> _Command:
    """The argument LEARNER and the options for keys; the command is called with `access`."""
    return _with_access(command, click.argument("learner", metavar="LEARNER", type=LearnerType()))


def learner_option(command: _Command) -> _Command:
    """The same, with LEARNER as the option --learner; the command is called with `access` and `problem`.

    `access` is None without the option, and also where there is no way in; `problem` then says why.
    """
    what = "Also check the connection to this learner."
    option = click.option("--learner", metavar="LEARNER", type=LearnerType(), help=what)

    @wraps(command)
    def call(*, access: LearnerEndpoint | ConfigurationError | None, **others: Any) -> Any:
        if isinstance(access, ConfigurationError):
            return command(access=None, problem=str(access), **others)
        return command(access=access, problem="", **others)

    return _with_access(call, option, tolerant=True)


def _with_access(command: _Command, learner: Callable[[_Command], _Command], tolerant: bool = False) -> _Command:
    """Add `learner` and the options for keys. `tolerant`: without a way in the command is called with the error."""

    @wraps(command)
    def call(
        *, learner: Address | str | None, keys: Path | None, credential: Path | None, insecure: bool, **others: Any
    ) -> Any:
        access: LearnerEndpoint | ConfigurationError | None = None
        try:
            if learner is not None:
                (access,) = find_endpoints([learner], keys=keys, credential=credential, insecure=insecure)
        except ConfigurationError as error:
            if not tolerant:
                raise
            access = error
        return command(access=access, **others)

    return learner(access_options(call))


def access_options(command: _Command) -> _Command:
    """--keys, --credential and --insecure, for a command that connects; `find_endpoints` takes them."""
    return _keys_option(_credential_option(_insecure_option(command)))


def find_endpoints(
    learners: Sequence[Address | str], *, keys: Path | None, credential: Path | None, insecure: bool
) -> list[LearnerEndpoint]:
    """Return how to connect to each of the learners, given by address or invitation. Raises ConfigurationError.

    Invitations are stored; then the program is started again with plain addresses in their place.
    """
    invitations = [learner for learner in learners if isinstance(learner, str)]
    for invitation in invitations:
        endpoints.accept(invitation, keys)
    _hide(invitations)
    addresses = [Address.parse(one.partition("#")[0]) if isinstance(one, str) else one for one in learners]
    return [endpoints.find(one, folder=keys, credential=credential, insecure=insecure) for one in addresses]


def _hide(invitations: Sequence[str]) -> None:
    """Start this program again with plain addresses: every user can read the command line of a process."""
    words = sys.orig_argv[1:]
    for invitation in invitations:
        words = [word.replace(invitation, invitation.partition("#")[0]) for word in words]
    if os.name == "posix" and words != sys.orig_argv[1:]:
        os.execv(sys.executable, [sys.executable, *words])


def finish(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.exit(code)
