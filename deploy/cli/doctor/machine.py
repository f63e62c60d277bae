"""Checks of this host: ports, cores, disk, descriptors, terminal."""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil

from common.errors import A3cdError
from common.host.addresses import Address
from common.wire import sockets
from deploy.cli.doctor.finding import Finding
from deploy.cli.view.formatting import size

MIN_DISK = 1e9
"""Free bytes; a run's checkpoints and metrics need far less."""
MIN_DESCRIPTORS = 1024
"""A learner has two connections per actor."""
MIN_COLUMNS, MIN_ROWS = 80, 24


def look(port: int, runs: Path) -> list[Finding]:
    """All findings. port: where a learner would listen. runs: where run folders would be made."""
    columns, rows = shutil.get_terminal_size()
    on_terminal = terminal(sys.stderr.isatty(), columns, rows)
    return [ports(port), threads(os.environ), disk(runs), descriptors(), on_terminal]


def ports(port: int) -> Finding:
    name = f"ports {port}, {port + 1}"
    try:
        for listener in sockets.reserve_pair(Address("*", port)):
            listener.close()
    except A3cdError as error:
        mend = "a running learner is the usual reason; for another one, choose another port with --bind"
        return Finding(name, "warn", str(error).partition(": ")[0], mend)
    return Finding(name, "ok", "free")


def threads(environ: Mapping[str, str]) -> Finding:
    """The cores, and whether OMP_NUM_THREADS asks for more than the one thread per daemon that is fastest."""
    process = psutil.Process()
    cores = len(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else psutil.cpu_count() or 1
    text = f"{cores} {'core' if cores == 1 else 'cores'}, each actor and the learner use one thread"
    asked = environ.get("OMP_NUM_THREADS", "1")
    if asked != "1":
        text = f"OMP_NUM_THREADS={asked}, {cores} cores: threads of several daemons would wait for each other"
        return Finding("threads", "warn", text, "unset OMP_NUM_THREADS, or set it to 1")
    return Finding("threads", "ok", text)


def disk(runs: Path) -> Finding:
    place = runs.absolute()
    while not place.exists():
        place = place.parent
    mend = "start a3cd in another folder, or name one with --run-dir"
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Finding("disk", "bad", f"{place} cannot be written to: {error.strerror}", mend)
    free = shutil.disk_usage(place).free
    text = f"{size(free)} free in {place}"
    return Finding("disk", "ok", text) if free >= MIN_DISK else Finding("disk", "warn", f"only {text}", mend)


def descriptors() -> Finding:
    if sys.platform == "win32":
        return Finding("open files", "ok", "no limit of its own")
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < MIN_DESCRIPTORS:
        text = f"a process may open {soft}: enough for about {max(0, soft - 64) // 2} actors"
        return Finding("open files", "warn", text, f"ulimit -n {MIN_DESCRIPTORS} (the hard limit is {hard})")
    return Finding("open files", "ok", "no limit" if soft == resource.RLIM_INFINITY else f"{soft} per process")


def terminal(is_terminal: bool, columns: int, rows: int) -> Finding:
    if not is_terminal:
        return Finding("terminal", "ok", "stderr is no terminal: progress comes as plain lines")
    text = f"{columns} x {rows}"
    if columns < MIN_COLUMNS or rows < MIN_ROWS:
        return Finding("terminal", "warn", text, f"the live panel wants {MIN_COLUMNS} x {MIN_ROWS}: enlarge it")
    return Finding("terminal", "ok", text)
