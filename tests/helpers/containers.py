"""Podman in namespaces of its own (Debian's packages podman and runc, and root), and a base image without a registry.

All that podman makes (images, containers, bridges, rules, locks) is in a mount, a network and a process namespace whose
first process ends with its standard input. However the tests end, the kernel ends and removes all of it; only empty
cgroups are left, which `close` removes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.helpers import rootfs

STORAGE_BYTES = 4 << 30
"""In memory: on a disk, each unmounting of a layer waits until everything of everybody is written."""
BASE = "localhost/debian"
PATIENCE_SECONDS = 100.0
_PROGRAMS = ("podman", "unshare", "nsenter", "mount", "ip", "dpkg-query")
_PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PACKAGES = (
    "base-files",
    "base-passwd",
    "bash",
    "coreutils",
    "dash",
    "libc-bin",
    "libstdc++6",
    "passwd",
    "python3-venv",
)
"""What `deploy/Containerfile` wants of a base; libstdc++6 is in every Debian that has apt."""
_CGROUPS = Path("/sys/fs/cgroup")
_FIRST_PROCESS = """
set -eu
mount -t tmpfs -o "mode=755,size=$1" tmpfs /var/lib
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -p /run/lock
ip link set lo up
exec 3<&0
cat <&3 &
echo ready
wait $!
"""
"""The shell does not become `cat`: podman's orphans are its children, and only one that waits is rid of them."""
_SETTINGS = """
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
log_driver = "k8s-file"
[engine]
runtime = "{runtime}"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_config_dir = "{networks}"
"""


def lacking() -> str:
    """Why there can be no podman here; empty: whether it runs containers is still to be seen."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "only root on Linux makes namespaces for podman"
    missing = [name for name in _PROGRAMS if _where(name) is None]
    missing += [] if _runtime() else ["runc"]
    if missing:
        return f"not installed: {', '.join(missing)} (packages podman and runc)"
    if psutil.virtual_memory().available < STORAGE_BYTES * 1.25:
        return f"less than {STORAGE_BYTES * 1.25 / (1 << 30):.0f} GiB of memory for images"
    return ""


def _where(program: str) -> str | None:
    return shutil.which(program, path=_PLACES)


def _runtime() -> str:
    """runc first: crun refuses machines with both versions of cgroups."""
    return next((name for name in ("runc", "crun") if _where(name)), "")


def _limit(kind: int) -> int:
    """One that may be set: podman's own choice is often more than a root of few capabilities may have."""
    _, hard = resource.getrlimit(kind)
    return 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)


class Podman:
    """Runs until `close`; the working folder of its commands is `folder`."""

    def __init__(self, folder: Path) -> None:
        """Raises RuntimeError where there can be no such namespaces."""
        self.folder = folder
        self._cgroups_before = set(_own_cgroups())
        self._environment = [
            *("env", "-i", f"--chdir={folder}", f"PATH={_PLACES}", f"HOME={folder}", f"TMPDIR={folder}"),
            *("LC_ALL=C.UTF-8", "STORAGE_DRIVER=overlay", f"CONTAINERS_CONF={folder / 'containers.conf'}"),
        ]
        (folder / "containers.conf").write_text(
            _SETTINGS.format(
                files=_limit(resource.RLIMIT_NOFILE),
                processes=_limit(resource.RLIMIT_NPROC),
                runtime=_runtime(),
                networks=folder / "networks",
            )
        )
        kinds = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
        self._holder = subprocess.Popen(
            ["unshare", *kinds, "sh", "-c", _FIRST_PROCESS, "sh", str(STORAGE_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._holder.stdout is not None and self._holder.stderr is not None
        if self._holder.stdout.readline() != b"ready\n":
            said = self._holder.stderr.read().decode(errors="replace").strip()
            self.close()
            raise RuntimeError(f"no namespaces may be made here: {said}")
        (child,) = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text().split()
        self._first = child

    def attempt(self, *words: object, seconds: float = PATIENCE_SECONDS) -> subprocess.CompletedProcess[str]:
        """`podman` with these words, whatever comes of it."""
        enter = ["nsenter", "--target", self._first, "--mount", "--net", "--pid", *self._environment]
        return subprocess.run(
            [*enter, "podman", *map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def run(self, *words: object, seconds: float = PATIENCE_SECONDS) -> str:
        """What it prints; fails the test where it fails."""
        done = self.attempt(*words, seconds=seconds)
        if done.returncode:
            pytest.fail(f"podman {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def close(self) -> None:
        """Nothing of it is left."""
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None and self._holder.stderr is not None
        with contextlib.suppress(BrokenPipeError):
            self._holder.stdin.close()
        self._holder.wait(60)
        self._holder.stdout.close()
        self._holder.stderr.close()
        for group in set(_own_cgroups()) - self._cgroups_before:
            for path, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    Path(path).rmdir()


def _own_cgroups() -> list[Path]:
    """Podman's, in every hierarchy there is."""
    return [*_CGROUPS.glob("libpod_parent"), *_CGROUPS.glob("*/libpod_parent")]


@contextmanager
def podman() -> Iterator[Podman]:
    """One that has the image `BASE`, and is gone afterwards; skips the test where it can run no container."""
    if why := lacking():
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="a3cd-podman-") as name:
        folder = Path(name)
        try:
            rootfs.archive(folder / "debian.tar", *_PACKAGES)
            one = Podman(folder)
        except RuntimeError as error:
            pytest.skip(str(error))
        try:
            tried = one.attempt("import", "--quiet", folder / "debian.tar", BASE)
            (folder / "debian.tar").unlink()
            if not tried.returncode:
                tried = one.attempt("run", "--rm", BASE, "true")
            if tried.returncode:
                pytest.skip(f"podman runs no container here: {tried.stderr.strip()[-1000:]}")
            yield one
        finally:
            one.close()
