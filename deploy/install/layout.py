"""Where things are on a host, and the files of the package that go there."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from importlib.resources import files

_UNITS = files("deploy").joinpath("units")
UNITS = ("a3cd-learner@.service", "a3cd-actor@.service", "a3cd-launcher.service", "a3cd.target", "a3cd.slice")


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
        """Key folder of the host."""
        return f"{self.config}/keys"

    @property
    def a3cd(self) -> str:
        """The command."""
        return f"{self.venv}/bin/a3cd"

    def unit(self, name: str) -> bytes:
        """Text of a unit file."""
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
    return _UNITS.joinpath(*path).read_bytes()


def shell_word(path: str) -> str:
    """A path of a layout as one word for the host's shell."""
    return f'"$HOME"{shlex.quote(path[1:])}' if path.startswith("~/") else shlex.quote(path)
