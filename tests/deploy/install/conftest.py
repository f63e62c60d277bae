"""A host that is a folder: ssh, systemctl and the others are small programs that note how they were called."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from common.host.addresses import Address
from deploy.backends.hosts import parse
from deploy.install import roles
from deploy.install.payload import SYSTEM, USER, Layout, Payload
from deploy.install.target import SshTarget

_NOTE = """#!/bin/sh
echo "$(basename "$0") $*" >> "$FAKE_LOG"
case "$*" in
*"show --property=ActiveState"*)
    for unit; do :; done
    if test -e "$FAKE_LOG.$unit"; then cat "$FAKE_LOG.$unit"
    elif test -e "$FAKE_LOG.up"; then echo ActiveState=active
    else echo ActiveState=inactive; fi ;;
*"list-units --all"*) test ! -e "$FAKE_LOG.listed" || cat "$FAKE_LOG.listed" ;;
*is-enabled*) test -e "$FAKE_LOG.boot" && echo enabled || echo disabled ;;
*" enable "*) : > "$FAKE_LOG.boot" ;;
*" restart "*) : > "$FAKE_LOG.up" ;;
enable-linger) : > "$FAKE_LOG.lingers" ;;
show-user*) test ! -e "$FAKE_LOG.lingers" || echo yes ;;
esac
"""
_ID = """#!/bin/sh
case "$*" in
-u) cat "$FAKE_LOG.uid" 2>/dev/null || echo 0 ;;
*) test "$*" = "a3cd a3cd-actor a3cd-evaluator a3cd-launcher a3cd-relay" -a -e "$FAKE_LOG.users" ;;
esac
"""
_SYSUSERS = """#!/bin/sh
: > "$FAKE_LOG.users"
"""
_TMPFILES = """#!/bin/sh
etc=${2%/tmpfiles.d/a3cd.conf}
mkdir -p "$etc/a3cd/runs" "$etc/a3cd/keys"
chmod 711 "$etc/a3cd/keys"
"""
_PYTHON = """#!/bin/sh
case "$*" in
*realpath*) cat "$FAKE_LOG.python" 2>/dev/null || echo /usr/bin/python3 ;;
"-m venv --clear "*) rm -rf "$4"; mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && : >"$4/pyvenv.cfg" ;;
"-m pip install "*) cp "$FAKE_LOG.a3cd" "${0%/*}/a3cd"; echo "pip $*" >> "$FAKE_LOG" ;;
"-m pip --version") ;;
*) exec {python} "$@" ;;
esac
"""
_A3CD = """#!/bin/sh
echo "a3cd $*" >> "$FAKE_LOG"
case "$*" in
*"new learner") : > "$3/learner.key" ;;
check-config*) test ! -e "$FAKE_LOG.wrong" || { cat "$FAKE_LOG.wrong" >&2; exit 78; } ;;
*--extra*) test -e "$FAKE_LOG.extra" || { echo "no learner answers" >&2; exit 75; }; cat "$FAKE_LOG.extra" ;;
esac
"""
# The host's side of ssh: the last word goes to a shell.
_SSH = """#!/bin/sh
for line; do :; done
echo "ssh $*" >> "$FAKE_LOG"
exec sh -c "$line"
"""


AT, FAR, ANYWHERE = Address("127.0.0.1", 5555), Address("gpu-box", 5555), Address("0.0.0.0", 5565)
Take = Callable[[Payload], list[str]]
MAKERS: dict[str, Callable[[Layout, tuple[Path, ...]], Payload]] = {
    "learner": lambda layout, wheels: roles.learner(layout, wheels, "mine", b"seed = 1\n", FAR),
    "actors": lambda layout, wheels: roles.peers(
        "actors", layout, wheels, FAR, 2, modules=("my_games",), credential=lambda: b"secret"
    ),
    "launcher": lambda layout, wheels: roles.peers("launcher", layout, wheels, AT, 4),
    "relay": lambda layout, wheels: roles.relay(
        layout, wheels, FAR, ANYWHERE, mbit=800.0, credential=lambda: b"secret"
    ),
    "upgrade": roles.upgrade,
}


class Fake:
    """Where it is, and what happened on it."""

    def __init__(self, folder: Path) -> None:
        self.root, self._log = folder / "root", folder / "log"
        self.programs = folder / "bin"
        for path in (self.root, self.programs):
            path.mkdir()
        for name in ("systemctl", "loginctl", "journalctl"):
            self.put(name, _NOTE)
        self.put("sleep", "#!/bin/sh\n")
        self.put("runuser", '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
        self.put("id", _ID)
        self.put("systemd-sysusers", _SYSUSERS)
        self.put("systemd-tmpfiles", _TMPFILES)
        self.put("python3", _PYTHON.replace("{python}", sys.executable))
        self.put("ssh", _SSH)
        self.put("../log.a3cd", _A3CD)
        self.environment = {
            "FAKE_LOG": str(self._log),
            "HOME": str(self.root / "home"),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
        }
        etc = self.root / "etc"
        self.system = replace(
            SYSTEM,
            venv=str(self.root / "opt/a3cd"),
            units=str(etc / "systemd/system"),
            config=str(etc / "a3cd"),
            data=str(self.root / "var/lib/a3cd"),
            etc=str(etc),
        )
        self.target = SshTarget(parse("root@box"), ("ssh", "--", "root@box"))

    def layout(self, of: Layout) -> Layout:
        """On this host, where whoever logs in is root or not accordingly."""
        self.say("uid", "1000\n" if of.user else "0\n")
        return USER if of.user else self.system

    def put(self, name: str, text: str) -> None:
        """A program."""
        file = self.programs / name
        file.write_text(text)
        file.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """Of the programs, in order."""
        return self._log.read_text().splitlines() if self._log.exists() else []

    def say(self, what: str, text: str) -> None:
        """What a program answers from now on; see the top of this file."""
        Path(f"{self._log}.{what}").write_text(text)

    def forget(self) -> None:
        """What was called."""
        self._log.unlink(missing_ok=True)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    one = Fake(tmp_path)
    for name, value in one.environment.items():
        monkeypatch.setenv(name, value)
    return one


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    file = tmp_path / "a3cd-1-py3-none-any.whl"
    file.write_bytes(b"a wheel")
    return file


@pytest.fixture
def take(fake: Fake) -> Callable[[Payload], list[str]]:
    """Brings the host to the state of a payload; what was due."""

    def run(payload: Payload) -> list[str]:
        due = list(fake.target.apply(payload))
        if due:
            done = set(fake.target.apply(payload, due))
            assert {line for line in done if not line.startswith("note: ")} <= set(due)
        return due

    return run


@pytest.fixture
def actors(fake: Fake, wheel: Path) -> Payload:
    return MAKERS["actors"](fake.system, (wheel,))
