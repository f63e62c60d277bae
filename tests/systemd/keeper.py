"""Holds one machine: mounts, cgroups, container, in a mount namespace of its own; ends with whoever started it.

    python keeper.py NAME FOLDER [--bind-ro=PATH ...]

Says `mounted` once the machine's root is at FOLDER/root, waits for a line, boots, boots again whenever the machine asks
for it, and removes everything when its standard input ends or the machine is powered off.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

SIZE = "2g"
_REBOOTED = 133
"""Exit code of `systemd-nspawn --keep-unit` when the machine is to be booted again."""
_CGROUPS = Path("/sys/fs/cgroup")
_TO_ITS_GROUPS = 'while [ "$1" != -- ]; do echo $$ > "$1"; shift; done; shift; exec "$@"'


def mount(base: Path) -> Path:
    """An overlay of this machine's root, whose upper layer is memory; gone with the mount namespace."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=755,size={SIZE}", "a3cd-test", base], check=True)
    upper, work, root = (base / name for name in ("upper", "work", "root"))
    for folder in (upper, work, root):
        folder.mkdir(mode=0o755)
    layers = f"lowerdir=/,upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, root], check=True)
    return root


def tidy(root: Path, name: str) -> None:
    """A machine with a name of its own and none of this one's services."""
    etc = root / "etc"
    for path in [*etc.glob("systemd/system/*.wants"), *etc.glob("rc?.d"), root / "opt" / "a3cd"]:
        shutil.rmtree(path, ignore_errors=True)
    for path in (etc / "machine-id", root / "usr" / "sbin" / "policy-rc.d"):
        path.unlink(missing_ok=True)
    (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
    (etc / "hostname").write_text(f"{name}\n")
    (etc / "hosts").write_text(f"127.0.0.1 localhost {name}\n")
    default = etc / "systemd" / "system" / "default.target"
    default.unlink(missing_ok=True)
    default.symlink_to("/lib/systemd/system/multi-user.target")
    journal = etc / "systemd" / "journald.conf.d" / "test.conf"
    journal.parent.mkdir(parents=True, exist_ok=True)
    # On the overlay, since what was logged before a reboot is asked for after it.
    journal.write_text("[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\n")


def groups(name: str) -> list[Path]:
    """A cgroup of its own in every hierarchy there is."""
    roots = [_CGROUPS] if (_CGROUPS / "cgroup.procs").exists() else sorted(_CGROUPS.iterdir())
    made = []
    for hierarchy in roots:
        if not (hierarchy / "cgroup.procs").exists() or hierarchy.is_symlink():
            continue
        group = hierarchy / f"a3cd-{name}"
        group.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (group / file).exists() and (hierarchy / file).exists():
                (group / file).write_text((hierarchy / file).read_text())
        made.append(group)
    return made


def boot(root: Path, name: str, options: list[str], console: Path, cgroups: list[Path]) -> subprocess.Popen[bytes]:
    """The container's supervisor; its only child is the machine's systemd."""
    nspawn = [
        *("systemd-nspawn", "--quiet", f"--directory={root}", "--boot", "--console=pipe", "--register=no"),
        *("--keep-unit", "--link-journal=no", "--private-network", f"--machine={name}", *options),
    ]
    inside = [str(group / "cgroup.procs") for group in cgroups]
    with console.open("ab") as log:
        command = ["sh", "-c", _TO_ITS_GROUPS, "sh", *inside, "--", *nspawn]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def ended(machine: subprocess.Popen[bytes]) -> bool:
    """Waits for the machine to end, or for whoever started this to go: then it is ended. False: boot it again."""
    while machine.poll() is None:
        ready, _, _ = select.select([0], [], [], 0.1)
        if ready and not os.read(0, 4096):
            for pid in children(machine.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                machine.wait(10)
            machine.kill()
            machine.wait()
            return True
    return machine.returncode != _REBOOTED


def children(pid: int) -> list[int]:
    """Of all its threads."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found


def remove(cgroups: list[Path]) -> None:
    """Deepest first; one that still holds a dying process is left."""
    for group in cgroups:
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def main(name: str, base: Path, options: list[str]) -> int:
    root = mount(base)
    tidy(root, name)
    print("mounted", flush=True)
    if not os.read(0, 4096):
        return 0
    cgroups = groups(name)
    try:
        while not ended(boot(root, name, options, base / "console.log", cgroups)):
            pass
    finally:
        remove(cgroups)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
