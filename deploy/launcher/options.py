"""The options of `a3cd launcher` that belong to certain ways of starting actors: one table, with the check of each."""

import re
import shlex
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from common.errors import ConfigurationError
from deploy.arguments import AddressType, ModuleType
from deploy.backends import hosts
from deploy.backends.command import COUNT
from deploy.backends.pods import CREDENTIAL
from deploy.backends.slurm import OUT_OF_SIGHT, SET_HERE
from deploy.backends.systemd import UNIT
from deploy.ssh import STRICT

WAYS = ("process", "systemd", "ssh", "slurm", "ray", "kubernetes", "command")
REQUEST = {"cpu": "1", "memory": "512Mi"}
"""Resources that an actor asks for unless --request says otherwise."""
EXTRAS = frozenset({"kubernetes", "ray"})
"""Ways that need an extra of a3cd. The extra, and the module that it installs, have the way's name."""


class Checked(click.ParamType[Any]):
    """A parameter whose text is read by a function, which raises ConfigurationError for wrong text."""

    name = "text"

    def __init__(self, read: Callable[[str], Any]) -> None:
        self.read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.read(value) if isinstance(value, str) else value
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)


class WayOption(click.Option):
    """An option that belongs to some of the ways."""

    def __init__(self, name: str, ways: tuple[str, ...], help: str = "", **options: Any) -> None:
        super().__init__([name], help=f"{', '.join(ways)}: {help}" if help else None, **options)
        self.ways = ways


def _form(pattern: str, how: str, taken: Collection[str] = ()) -> Checked:
    """A parameter that matches `pattern`, whose group `key` is none of `taken`; the error says `how` to write it."""

    def read(text: str) -> str:
        match = re.fullmatch(pattern, text, re.ASCII)
        if match is None:
            raise ConfigurationError(f"{text!r}: {how}")
        if taken and match["key"].lower() in taken:
            raise ConfigurationError(f"{text!r}: a3cd sets {match['key']} itself")
        return text

    return Checked(read)


def _pairs(option: str, pattern: str, how: str) -> Callable[[Any, Any, tuple[str, ...]], dict[str, str]]:
    """A callback that reads the KEY=VALUE words of a repeatable option; each key may be given once."""

    def read(_: Any, __: Any, words: tuple[str, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        for word in words:
            match = re.fullmatch(pattern, word, re.ASCII)
            if match is None:
                raise click.BadParameter(f"{word!r}: {how}", param_hint=option)
            if match["key"] in found:
                raise click.BadParameter(f"{match['key']} is given twice", param_hint=option)
            found[match["key"]] = match["value"]
        return found

    return read


def _table(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, ValueError, RecursionError) as error:  # no file, no UTF-8, no JSON, or nested too deep
        raise ConfigurationError(f"{path}: {error}; write an object of JSON") from None


def split_command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigurationError(f"{text!r}: {error}") from None
    if not any(COUNT in word for word in words[1:]):
        raise ConfigurationError(f"{text!r}: write PROGRAM ARG ... with {COUNT} among the arguments")
    return words


UNIT_NAME = _form(r"[A-Za-z0-9:_.][A-Za-z0-9:_.-]*@", f"write a template's name up to its @, as in {UNIT}")


def _sbatch_option(text: str) -> str:
    """Checks an option of sbatch, which also takes the beginning of an option's name for the whole."""
    match = re.fullmatch(r"(?P<key>[a-z][a-z-]*)(?:=[^\r\n\0]*)?", text, re.ASCII)
    if match is None:
        raise ConfigurationError(f"{text!r}: write KEY=VALUE without dashes, as in partition=cpu")
    if any(option.startswith(match["key"]) for option in SET_HERE):
        raise ConfigurationError(f"{text!r}: a3cd sets {match['key']} itself")
    if any(option.startswith(match["key"]) for option in OUT_OF_SIGHT):
        raise ConfigurationError(f"{text!r}: a3cd would not find these jobs again")
    return text


SBATCH_OPTION = Checked(_sbatch_option)
SSH_OPTION = _form(
    r"(?P<key>[A-Za-z0-9]+)=[^\r\n\0]+",
    "write an option of ssh as KEY=VALUE, as in Port=2222",
    {option.partition("=")[0].lower() for option in STRICT},
)
PROGRAM = _form(  # nothing that a shell would change
    r"(?:~/|/)?[A-Za-z0-9_.+][A-Za-z0-9_.+/-]*",
    "no path of a3cd: letters, digits and any of ._+-/ as in /opt/a3cd/bin/a3cd",
)
RAY = _form(r"auto|(ray://)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:]+\]):\d{1,5}", "write auto, HEAD:6379 or ray://HEAD:10001")
KUBERNETES_NAME = _form(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "a name in Kubernetes is of a-z, 0-9, - and .")
IMAGE = _form(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*", "write an image, as in registry.lab/a3cd:0.2")
_QUANTITY = (
    r"(?P<key>[A-Za-z0-9][A-Za-z0-9._/-]*)=(?P<value>[0-9]+(\.[0-9]+)?([munkMGTPE]|[KMGTPE]i)?)",
    "write a resource and its quantity, as in cpu=500m or memory=1Gi",
)
_LABEL = (
    r"(?P<key>[A-Za-z0-9][A-Za-z0-9._/-]*)=(?P<value>[A-Za-z0-9._-]{0,63})",
    "write a label of nodes, as in pool=actors",
)
_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_TABLE = Checked(lambda text: _table(Path(text)))
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
        "--ray", ("ray",), "HEAD:6379 if a raylet runs here, or ray://HEAD:10001.  [default: the Ray of this host]",
        type=RAY, default="auto", metavar="ADDRESS",
    ),
    WayOption("--runtime-env", ("ray",), "a JSON file with Ray's runtime_env.", type=_TABLE, metavar="FILE"),
    WayOption(
        "--image", ("kubernetes",), "the image of a3cd.  [default: in a pod its own]", type=IMAGE, metavar="IMAGE"
    ),
    WayOption(
        "--secret", ("kubernetes",), f"the Secret whose item {CREDENTIAL} is the actors' credential.",
        type=KUBERNETES_NAME, metavar="NAME",
    ),
    WayOption(
        "--namespace", ("kubernetes",), "of the pods.  [default: of the kubeconfig, or the launcher's own]",
        type=KUBERNETES_NAME, metavar="NAME",
    ),
    WayOption(
        "--request", ("ray", "kubernetes"), "what an actor asks for; may be repeated.  [default: cpu=1, memory=512Mi]",
        multiple=True, metavar="RESOURCE=QUANTITY", callback=_pairs("--request", *_QUANTITY),
    ),
    WayOption(
        "--limit", ("kubernetes",), "the most that a pod may take; may be repeated.  [default: memory=1Gi, none where "
        "--request names memory]",
        multiple=True, metavar="RESOURCE=QUANTITY", callback=_pairs("--limit", *_QUANTITY),
    ),
    WayOption(
        "--node-selector", ("kubernetes",), "only nodes with this label; may be repeated.", multiple=True,
        metavar="LABEL=VALUE", callback=_pairs("--node-selector", *_LABEL),
    ),
    WayOption("--service-account", ("kubernetes",), "of the pods.", type=KUBERNETES_NAME, metavar="NAME"),
    WayOption("--context", ("kubernetes",), "of the kubeconfig.", metavar="NAME"),
    WayOption(
        "--actor-learner", ("process", "ssh", "slurm", "ray", "kubernetes", "command"), "the learner's address as "
        "actors there reach it, or their relay's.  [default: LEARNER]", type=AddressType(), metavar="ADDRESS",
    ),
    WayOption(
        "--command", ("command",), "what to run, with {count} and {learner} in it.", type=Checked(split_command),
        metavar="'PROGRAM ARG ...'",
    ),
    WayOption(
        "--allow-module", ("process", "ssh", "slurm", "ray", "kubernetes"), "a module that the learner may have actors "
        "import for its environment; may be repeated.", multiple=True, type=ModuleType(),
        metavar="MODULE",
    ),
    WayOption("--prestart", ("process",), type=click.IntRange(0), default=0, hidden=True),
)  # fmt: skip


def amount(quantity: str) -> float:
    """Returns a Kubernetes quantity as a number: 0.5 for 500m, 1024 for 1Ki."""
    number = quantity.rstrip("munkKMGTPEi")
    unit = quantity.removeprefix(number)
    small = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3}
    if unit in small:
        return float(number) * small[unit]
    power = "kMGTPE".index(unit[0].replace("K", "k")) + 1
    return float(number) * (1024.0 if unit.endswith("i") else 1000.0) ** power


def check_ways(ctx: click.Context, start_with: str) -> None:
    """Refuses an option that does not belong to this way: it would have no effect."""
    for option in OPTIONS:
        given = ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and start_with not in option.ways:
            ways = " or ".join(option.ways)
            raise click.UsageError(f"{option.opts[0]} belongs to --start-with {ways}, not to {start_with}")
