"""A root file system of packages that this Debian has installed: a base for images, without registry or mirror."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

_LINKS = ("bin", "lib", "lib64", "sbin")
_LEFT_OUT = re.compile(r"/usr/share/(doc|info|lintian|locale|man)/")
_NEEDED = re.compile(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)")


def archive(file: Path, *packages: str) -> None:
    """These packages and what they depend on, as unpacked here; raises RuntimeError where they are not."""
    with tarfile.open(file, "w") as tar:
        for name in _LINKS:
            if not Path(f"/{name}").is_symlink():
                raise RuntimeError(f"/{name} is no link, as it is in Debian 12")
            tar.add(f"/{name}", name)
        done = {Path("/"), *(Path(f"/{name}") for name in _LINKS)}
        for path in sorted(_files(_with_dependencies(packages))):
            real = Path(os.path.realpath(path.parent)) / path.name  # what a package calls /bin/sh is /usr/bin/sh
            if real not in done and os.path.lexists(real) and not _LEFT_OUT.match(str(real)):
                done.add(real)
                tar.add(real, str(real).lstrip("/"), recursive=False)
        for name in ("passwd", "group"):  # which base-passwd makes when it is configured
            tar.add(f"/usr/share/base-passwd/{name}.master", f"etc/{name}")


def _with_dependencies(packages: Iterable[str]) -> set[str]:
    """Of alternatives, all that are installed."""
    fields = r"${Package}\t${db:Status-Status}\t${Pre-Depends}, ${Depends}\n"
    rows = [line.split("\t") for line in _asked("-W", f"--showformat={fields}")]
    needs = {name: _NEEDED.findall(needed) for name, status, needed in rows if status == "installed"}
    if missing := set(packages) - set(needs):
        raise RuntimeError(f"not installed: {', '.join(sorted(missing))}")
    found: set[str] = set()
    due = list(packages)
    while due:
        name = due.pop()
        if name in needs and name not in found:
            found.add(name)
            due += needs[name]
    return found


def _files(packages: Iterable[str]) -> set[Path]:
    return {Path(line) for line in _asked("-L", *packages) if line.startswith("/")}


def _asked(*words: str) -> list[str]:
    return subprocess.run(["dpkg-query", *words], capture_output=True, text=True, check=True).stdout.splitlines()
