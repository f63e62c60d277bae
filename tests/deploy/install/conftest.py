"""A host that is a folder: ssh, systemctl and the others are little programs that note what they were asked."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from deploy.install.ssh import Way

_NOTE = """#!/bin/sh
echo "$(basename "$0") $*" >> "$FAKE_LOG"
case "$*" in
*is-active*) test -e "$FAKE_LOG.up" && echo active || echo inactive ;;
*is-enabled*) test -e "$FAKE_LOG.up" && echo enabled || echo disabled ;;
*restart*) : > "$FAKE_LOG.up" ;;
enable-linger) : > "$FAKE_LOG.lingers" ;;
esac
"""
_TMPFILES = """#!/bin/sh
root=${2%/etc/tmpfiles.d/a3cd.conf}
mkdir -p "$root/etc/a3cd/runs" "$root/etc/a3cd/keys"
"""
_PYTHON = """#!/bin/sh
case "$*" in
"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip install "*) : > "$(dirname "$0")/a3cd"; echo "pip $*" >> "$FAKE_LOG" ;;
"-m pip --version") ;;
"-c "*linger*) test -e "$FAKE_LOG.lingers" ;;
*) exec {python} "$@" ;;
esac
"""


class Fake:
    """Where it is, and what happened on it."""

    def __init__(self, folder: Path) -> None:
        self.root, self._log = folder / "root", folder / "log"
        self.programs = folder / "bin"
        for path in (self.root, self.programs):
            path.mkdir()
        for name in ("systemctl", "systemd-sysusers", "id", "loginctl"):
            self.put(name, _NOTE)
        self.put("systemd-tmpfiles", _TMPFILES)
        self.put("python3", _PYTHON.replace("{python}", sys.executable))
        # The host's side of ssh: the last word goes to a shell.
        self.put("ssh", '#!/bin/sh\nfor line; do :; done\necho "ssh $*" >> "$FAKE_LOG"\nexec sh -c "$line"\n')
        self.environment = {"FAKE_LOG": str(self._log), "PATH": f"{self.programs}:{os.environ['PATH']}"}

    def put(self, name: str, text: str) -> None:
        """A program."""
        file = self.programs / name
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    @property
    def calls(self) -> list[str]:
        """Of the programs, in order."""
        return self._log.read_text().splitlines() if self._log.exists() else []

    def forget(self) -> None:
        """What was called."""
        self._log.unlink(missing_ok=True)

    @property
    def way(self) -> Way:
        """There, with a folder in the place of its file system."""
        return Way("root@box", ("ssh", "-o", "BatchMode=yes", "--", "root@box"), root=str(self.root))


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    one = Fake(tmp_path)
    for name, value in one.environment.items():
        monkeypatch.setenv(name, value)
    return one
