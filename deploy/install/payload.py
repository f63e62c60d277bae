"""What is sent to a host: the settings and files that `remote_script.sh` takes, and where they go there."""

import io
import shlex
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import IO

from deploy.install.software import digest

PYTHON = "python3"
"""Default of --python. It makes the virtual environment of a host that has none; only a Python named there replaces an
existing environment."""


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
    """Wheels to install, a3cd's first. If it is the only one, the host's pip finds what it needs."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Contents by path: `etc/`, `config/` or `units/`, and the path below the layout's folder of that name; `gpu/` is
    for the units of hosts with an NVIDIA GPU."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """More variables for the script."""
    credential: Callable[[], bytes] | None = None
    """Makes the host's credential; called when it has none for this learner."""
    extras: Collection[str] = ()
    """Extras of a3cd to install besides those that the host has."""
    pip: Sequence[str] = ()
    """Options for pip on the host."""

    def write(self, out: IO[bytes], python: str, due: Collection[str]) -> None:
        """Writes a tar archive. `due`: the changes that the script printed when it only looked; now it makes them.

        The credential is made before anything is written: if the learner's host refuses it, the host is sent nothing.
        """
        credential = None
        if self.credential is not None and f"credential {self.settings['credential']}" in due:
            credential = self.credential()
        with tarfile.open(fileobj=out, mode="w|") as tar:
            for name, content in self._contents(python, due, credential):
                entry = tarfile.TarInfo(name)
                entry.mode = 0o600
                entry.size = content.stat().st_size if isinstance(content, Path) else len(content)
                with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as file:
                    tar.addfile(entry, file)

    def _contents(
        self, python: str, due: Collection[str], credential: bytes | None
    ) -> Iterator[tuple[str, bytes | Path]]:
        """The script comes last: tar accepts an archive that ends early between two files, and then there is no script
        to install half of it."""
        yield "settings", self._settings(python=python, act="yes" if due else "no").encode()
        yield "constraints.txt", files("deploy.install").joinpath("constraints.txt").read_bytes()
        yield "wheels.sha256", "".join(f"{digest(path)} {path.name}\n" for path in self.wheels).encode()
        yield from self.files.items()
        yield from ((f"wheels/{path.name}", path) for path in self.wheels if f"wheel {path.name}" in due)
        if credential is not None:
            yield "credential", credential
        yield "remote_script.sh", files("deploy.install").joinpath("remote_script.sh").read_bytes()

    def _settings(self, **words: str) -> str:
        words |= {"verb": self.verb, "scope": "--user" if self.layout.user else "--system", **self.settings}
        words |= {"index": "no" if len(self.wheels) > 1 else "yes", "extras": ",".join(sorted(self.extras))}
        words |= {"chosen": "no" if words["python"] == PYTHON else "yes", "pip_options": shlex.join(self.pip)}
        quoted = {name: shlex.quote(word) for name, word in words.items()}
        quoted |= {name: shell_word(getattr(self.layout, name)) for name in ("venv", "units", "config", "data", "etc")}
        return "".join(f"{name}={word}\n" for name, word in quoted.items())
