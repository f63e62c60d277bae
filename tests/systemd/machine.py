"""A machine with a real systemd: a container over a throw-away overlay of this machine's root (Debian's packages
systemd-container, dbus and polkitd, and root)."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests.helpers.waiting import until
from tests.systemd import keeper

BOOT_SECONDS = 60.0
_ENVIRONMENT = (
    *("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"),
    *("SYSTEMD_PAGER=cat", "SYSTEMD_COLORS=0"),
)


def lacking() -> str:
    """Why there can be no machine here; empty: there can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "only root on Linux can boot a machine"
    missing = [name for name in ("systemd-nspawn", "nsenter", "unshare", "dbus-daemon") if shutil.which(name) is None]
    missing += [] if Path("/usr/lib/polkit-1/polkitd").exists() else ["polkitd"]
    if missing:
        return f"not installed: {', '.join(missing)} (packages systemd-container, dbus, polkitd)"
    with tempfile.TemporaryDirectory() as folder:
        layers = f"lowerdir=/,upperdir={folder}/u,workdir={folder}/w"
        script = 'mount -t tmpfs none "$1" && cd "$1" && mkdir u w root && mount -t overlay overlay -o "$2" root'
        probe = ["unshare", "--mount", "sh", "-c", script, "sh", folder, layers]
        tried = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"no overlay can be mounted: {tried.stderr.strip()}" if tried.returncode else ""


class Machine:
    """Runs until `close`; `root` is where this process finds its files."""

    def __init__(self, name: str, *options: str) -> None:
        """Not booted yet; `options` are systemd-nspawn's."""
        self.name = name
        self._folder = tempfile.TemporaryDirectory(prefix="a3cd-machine-")
        base = Path(self._folder.name)
        self._console = base / "console.log"
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation=private", sys.executable, keeper.__file__, name, str(base), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"mounted\n"
        # The mounts are the keeper's alone.
        self.root = Path(f"/proc/{self._keeper.pid}/root{base}/root")
        self.leader = 0
        """Its first process."""

    def boot(self) -> Self:
        """Until everything that starts at boot has started or failed."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(b"boot\n")
        self._keeper.stdin.flush()
        self._await_boot(0)
        return self

    def reboot(self) -> None:
        """Orderly, and until it is up again."""
        before = self.leader
        self.run("systemctl", "reboot", check=False)
        self._await_boot(before)

    def _await_boot(self, before: int) -> None:
        def up() -> bool:
            supervisors = keeper.children(self._keeper.pid)
            leaders = keeper.children(supervisors[0]) if supervisors else []
            if not leaders or leaders[0] == before:
                return False
            self.leader = leaders[0]
            return self.run("systemctl", "is-system-running", check=False).strip() in ("running", "degraded")

        until(up, f"{self.name} has booted", BOOT_SECONDS)

    def prefix(self) -> list[str]:
        """Before a command that is to run inside, as root."""
        return ["nsenter", "--target", str(self.leader), "--all", "--", "env", "-i", *_ENVIRONMENT]

    def run(self, *command: object, check: bool = True, seconds: float = 60.0) -> str:
        """What it prints; fails the test where it fails, unless it need not succeed."""
        words = [*self.prefix(), *map(str, command)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
        if check and done.returncode:
            pytest.fail(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        """Properties of a unit."""
        shown = self.run("systemctl", "show", f"--property={','.join(properties)}", unit)
        return dict(line.partition("=")[::2] for line in shown.splitlines())

    def journal(self, unit: str, *options: str) -> str:
        """All that a unit said, and what systemd said of it."""
        self.run("journalctl", "--sync")
        return self.run("journalctl", "--unit", unit, "--output=short-iso", "--no-pager", *options)

    def close(self) -> None:
        """Nothing of it is left."""
        assert self._keeper.stdin is not None and self._keeper.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._keeper.stdin.close()
        self._keeper.wait(60)
        self._keeper.stdout.close()
        self._folder.cleanup()


@contextmanager
def machine(name: str, *options: str) -> Iterator[Machine]:
    """One that is gone afterwards; skips the test where there can be none."""
    if why := lacking():
        pytest.skip(why)
    one = Machine(name, *options)
    try:
        yield one
    finally:
        one.close()
