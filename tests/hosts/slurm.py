"""A Slurm of one node on a host: controller, node daemon and munge, with all their files in the host's own /run."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.waiting import until
from tests.hosts.network import Host

_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo", "squeue", "sbatch", "scancel", "scontrol")
CLIENT_SECONDS = "10"
_FILES, _MUNGE = Path("/run/slurm"), Path("/run/munge")
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={name}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmctldPidFile={files}/slurmctld.pid
SlurmdPidFile={files}/slurmd.pid
StateSaveLocation={files}/state
SlurmdSpoolDir={files}/spool
# The node has what it says below, whatever the machine has.
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
NodeName={name} NodeAddr={address} CPUs={cpus} RealMemory=8000 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def lacking() -> str:
    """Why there can be no Slurm here; empty: there can."""
    missing = [name for name in PROGRAMS if _where(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def _where(program: str) -> str | None:
    return shutil.which(program, path=_PLACES)


class Slurm:
    """A cluster that is one host."""

    def __init__(self, host: Host) -> None:
        """Nothing runs yet."""
        self._host = host
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self, cpus: int) -> None:
        """Until the node takes jobs; raises RuntimeError when one of the daemons ends."""
        for folder in (_FILES / "state", _FILES / "spool", _MUNGE, "/etc/slurm"):
            self._host.path(str(folder)).mkdir(parents=True, exist_ok=True)
        self._host.path("/etc/slurm/slurm.conf").write_text(
            _CONFIGURATION.format(name=self._host.name, address=self._host.address, files=_FILES, cpus=cpus)
        )
        key = self._host.path(f"{_FILES}/munge.key")
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        self._start(
            "munged", "--foreground", *(f"--{what}-file={_FILES}/munge.{what}" for what in ("key", "pid", "seed"))
        )
        socket = self._host.path(f"{_MUNGE}/munge.socket.2")
        self._wait(socket.is_socket, "munge to answer")
        self._start("slurmctld", "-D")
        self._start("slurmd", "-D")
        self._wait(
            lambda: self.ask("sinfo", "--noheader", "--format=%T", check=False).strip() == "idle", "an idle node"
        )

    def ask(self, *words: str, check: bool = True) -> str:
        """What a client program prints on the host; raises CalledProcessError when it fails or does not answer."""
        return self._host.run(["timeout", CLIENT_SECONDS, *words], check=check)

    def tasks(self) -> dict[str, str]:
        """State by task (JOB_SLOT), of all that wait or run."""
        listed = self.ask("squeue", "--noheader", "--array", "--format=%F_%K %T")
        return dict(line.split() for line in listed.splitlines())

    def end(self) -> None:
        """With all that it runs."""
        self._host.end_all()
        for daemon in self._daemons.values():
            daemon.wait()
        for folder in (_FILES, _MUNGE):  # its jobs too: the next Slurm here is a new one
            shutil.rmtree(self._host.path(str(folder)))

    def _start(self, name: str, *arguments: str) -> None:
        with self._log(name).open("wb") as out:
            self._daemons[name] = self._host.popen(
                [str(_where(name)), *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def _log(self, name: str) -> Path:
        return self._host.path(f"{_FILES}/{name}.log")

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            for name, daemon in self._daemons.items():
                if daemon.poll() is not None:
                    raise RuntimeError(f"{name} ended: {self._log(name).read_text()}")
            return ready()

        until(look, what)


@contextmanager
def slurm(host: Host, cpus: int) -> Iterator[Slurm]:
    """So many tasks at a time; whatever runs on the host is ended with it."""
    one = Slurm(host)
    try:
        one.begin(cpus)
        yield one
    finally:
        one.end()
