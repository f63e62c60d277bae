"""What a host is to have for each role, and where: the settings and files that `remote_script.sh` takes."""

import io
import re
import shlex
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import IO

from common.errors import ConfigurationError
from common.host.addresses import Address
from common.host.security.credential import file_name
from deploy.install.software import digest

PYTHON = "python3"
"""Makes the virtual environment of a host that has none; another one is put in the place of what is there."""
UNITS = (
    *("a3cd-learner@.service", "a3cd-actor@.service", "a3cd-launcher.service", "a3cd-evaluator.service"),
    *("a3cd.target", "a3cd.slice"),
)
PLAYERS = ("a3cd-actor@.service", "a3cd-evaluator.service")
"""Units that speak to a learner with the credential of their host; an evaluator is started by hand."""
_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)
_NO_KEYS = b"# No keys: the learner is on this machine, or `a3cd deploy` was told --insecure.\n"


@dataclass(frozen=True)
class Layout:
    """Paths on a host; `~` is the home of the user there."""

    user: bool
    venv: str
    units: str
    config: str
    data: str
    """Runs are kept here."""
    etc: str = ""
    """Empty for a user, who may write nothing there."""

    @property
    def keys(self) -> str:
        return f"{self.config}/keys"

    @property
    def a3cd(self) -> str:
        return f"{self.venv}/bin/a3cd"

    def unit(self, name: str) -> bytes:
        return read("user" if self.user else "system", name)


SYSTEM = Layout(
    user=False, venv="/opt/a3cd", units="/etc/systemd/system", config="/etc/a3cd", data="/var/lib/a3cd", etc="/etc"
)
USER = Layout(
    user=True,
    venv="~/.local/share/a3cd",
    units="~/.config/systemd/user",
    config="~/.config/a3cd",
    data="~/.local/state/a3cd",
)


def read(*path: str) -> bytes:
    """A file below deploy/units."""
    return files("deploy").joinpath("units", *path).read_bytes()


def shell_word(path: str) -> str:
    """A path of a layout as one word for the host's shell."""
    return f'"$HOME"{shlex.quote(path[1:])}' if path.startswith("~/") else shlex.quote(path)


@dataclass(frozen=True)
class Payload:
    verb: str
    layout: Layout
    wheels: Sequence[Path] = ()
    """a3cd's first. Alone, the host's pip finds what it needs."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """By `etc/`, `config/` or `units/` and the path below the layout's folder of that name."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """More variables for the script."""
    credential: Callable[[], bytes] | None = None
    """Called when the host has none for this learner."""
    extras: Collection[str] = ()
    """Of a3cd, to be installed besides those that the host has."""
    pip: Sequence[str] = ()
    """Options of pip there."""

    def write(self, out: IO[bytes], python: str, due: Collection[str]) -> None:
        """As a tar. `due`: lines that the script printed when it was to look only; they are changed now."""
        with tarfile.open(fileobj=out, mode="w|") as tar:
            for name, content in self._contents(python, due):
                entry = tarfile.TarInfo(name)
                entry.mode = 0o600
                entry.size = content.stat().st_size if isinstance(content, Path) else len(content)
                with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as file:
                    tar.addfile(entry, file)

    def _contents(self, python: str, due: Collection[str]) -> Iterator[tuple[str, bytes | Path]]:
        yield "remote_script.sh", files("deploy.install").joinpath("remote_script.sh").read_bytes()
        yield "settings", self._settings(python=python, act="yes" if due else "no").encode()
        yield "constraints.txt", files("deploy.install").joinpath("constraints.txt").read_bytes()
        yield "wheels.sha256", "".join(f"{digest(path)} {path.name}\n" for path in self.wheels).encode()
        yield from self.files.items()
        yield from ((f"wheels/{path.name}", path) for path in self.wheels if f"wheel {path.name}" in due)
        if self.credential is not None and f"credential {self.settings['credential']}" in due:
            yield "credential", self.credential()

    def _settings(self, **words: str) -> str:
        words |= {"verb": self.verb, "scope": "--user" if self.layout.user else "--system", **self.settings}
        words |= {"index": "no" if len(self.wheels) > 1 else "yes", "extras": ",".join(sorted(self.extras))}
        words |= {"chosen": "no" if words["python"] == PYTHON else "yes", "pip_options": shlex.join(self.pip)}
        quoted = {name: shlex.quote(word) for name, word in words.items()}
        quoted |= {name: shell_word(getattr(self.layout, name)) for name in ("venv", "units", "config", "data", "etc")}
        return "".join(f"{name}={word}\n" for name, word in quoted.items())


def learner(
    layout: Layout, wheels: Sequence[Path], run: str, config: bytes, bind: Address, insecure: bool = False
) -> Payload:
    """The learner of one run; raises ConfigurationError for a name that no unit can have."""
    if not _RUN.fullmatch(run):
        raise ConfigurationError(f"{run!r} is no name for a run: letters, digits, dots, dashes, underlines")
    keys = not bind.loopback and not insecure
    options = "A3CD_LEARNER_OPTIONS=--insecure" if insecure else ""
    own = {
        f"config/runs/{run}.toml": config,
        f"config/runs/{run}.env": _environment("learner.env", f"A3CD_BIND={bind}", options),
    }
    drop_in = read("drop-ins", "learner-keys.conf") if keys else _NO_KEYS
    settings = {"instances": f"a3cd-learner@{run}.service", "run": run, "key_pair": "yes" if keys else "no"}
    return Payload("learner", layout, wheels, own | _files(layout, drop_in, "a3cd-learner@.service"), settings)


def peers(
    verb: str,
    layout: Layout,
    wheels: Sequence[Path],
    learner: Address,
    slots: int,
    *,
    modules: Collection[str] = (),
    insecure: bool = False,
    credential: Callable[[], bytes] | None = None,
) -> Payload:
    """`actors` or a `launcher`, as `verb` says; raises ConfigurationError for what cannot be the name of a module."""
    for name in modules:
        if not _MODULE.fullmatch(name):
            raise ConfigurationError(f"{name!r} is no name of a module")
    words = " ".join([*(f"--allow-module {name}" for name in modules), *(["--insecure"] if insecure else [])])
    options = f"A3CD_ACTOR_OPTIONS={words}" if words else ""
    own = {"config/actor.env": _environment("actor.env", f"A3CD_LEARNER={learner}", options)}
    instances, templates = [f"a3cd-actor@{slot}.service" for slot in range(slots)], [*PLAYERS]
    if verb == "launcher":
        instances = ["a3cd-launcher.service"]
        templates += instances
        options = "A3CD_LAUNCHER_OPTIONS=--insecure" if insecure else ""
        own["config/launcher.env"] = _environment("launcher.env", f"A3CD_SLOTS={slots}", options)
        if not layout.user:
            own["etc/polkit-1/rules.d/50-a3cd.rules"] = read("polkit.rules")
    key_file = f"{layout.keys}/{file_name(learner)}".encode()
    keys = read("drop-ins", "peer-keys.conf").replace(b"/etc/a3cd/keys/learner.credential", key_file)
    own |= _files(layout, keys if credential else _NO_KEYS, *templates)
    credential_name = file_name(learner) if credential else ""
    settings = {"instances": " ".join(instances), "slots": str(slots), "credential": credential_name}
    settings |= {"learner": str(learner), "insecure": "yes" if insecure else "no"}
    return Payload(verb, layout, wheels, own, settings, credential)


def upgrade(layout: Layout, wheels: Sequence[Path]) -> Payload:
    """New software and units."""
    return Payload("upgrade", layout, wheels, _files(layout))


def _files(layout: Layout, drop_in: bytes = b"", *services: str) -> dict[str, bytes]:
    """The files of every role, and the drop-in about keys. A user's own daemons find keys in the user's key folder."""
    found = {f"units/{name}": layout.unit(name) for name in UNITS}
    if not layout.user:
        found |= {f"etc/{kind}.d/a3cd.conf": read(f"{kind}.conf") for kind in ("sysusers", "tmpfiles")}
        found |= {f"units/{name}.d/keys.conf": drop_in for name in services}
    return found


def _environment(sample: str, *lines: str) -> bytes:
    """The sample with its comments, and what is set below it."""
    set_here = "".join(f"{line}\n" for line in lines if line)
    return read("environment", sample) + b"\n# Set by `a3cd deploy`, which writes this file anew.\n" + set_here.encode()
