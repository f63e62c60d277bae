"""Actors on another host, reached by ssh: units of its systemd, or children of ssh where no systemd keeps them.

ssh logs in by key only, and to no host whose key is unknown. No secret is on a command line: each host has its own
credential.
"""

import logging
import shlex
from collections.abc import Sequence
from functools import partial

from deploy.backends.base import Backend, Ended, Observation, actor_name
from deploy.backends.hosts import Host
from deploy.backends.process import ONE_THREAD, ProcessBackend
from deploy.backends.runner import ToolError, last_line, run
from deploy.backends.systemd import TransientBackend
from deploy.ssh import SSH_FAILED

_QUESTION = (
    "uid=$(id -u); own=$XDG_RUNTIME_DIR; export XDG_RUNTIME_DIR=/run/user/$uid; echo a3cd uid=$uid"
    " system=$(systemctl is-system-running 2>/dev/null) user=$(systemctl --user is-system-running 2>/dev/null)"
    " linger=$(loginctl show-user $uid --property=Linger --value 2>/dev/null) flock=$(command -v flock)"
    " locks=$(for at in ${own:-/run} /run /tmp; do [ -w $at ] && echo $at && break; done)"
)
"""Lock files are where only this user can write, if a login gets such a folder: others could hold those in /tmp."""
_UP = frozenset({"running", "degraded", "starting"})
_log = logging.getLogger(__name__)


class SshBackend(Backend):
    """The actors on one host. The first observation asks the host whether a systemd there can keep them.

    It can if the login is root's on a host with systemd, or a user's whose manager lingers (`loginctl enable-linger`).
    """

    outlives = True

    def __init__(
        self,
        host: Host,
        *,
        launcher: str,
        group: str,
        learner: str,
        words: Sequence[str],
        program: str,
        ssh: Sequence[str],
    ) -> None:
        """`group`: as from `group_name`; `learner`: the learner's address for the actors, or their relay's.

        `words`: options of `a3cd actor` after that address; `ssh`: the words before the remote command.
        """
        self._host = host.name
        self.launcher = f"{launcher}-{host.name}"
        """What the names of the actors begin with."""
        self._unit = f"{group}-"
        self._actor = f"{program} {shlex.join(['actor', learner, *words, '--launcher', launcher])}"
        self._ssh = ssh
        self._kept: Backend | None = None
        """The backend for this host; None: the host has not been asked yet."""
        self._lost = False
        """Whether a child's connection broke since the host last answered."""

    def shown(self, slot: int) -> str:
        """The command without ssh's many options; how actors are kept there is not known before the host was asked."""
        return f"ssh {self._ssh[-1]} {self._command(slot)}"

    def start(self, slots: Sequence[int]) -> None:
        self._backend.start(slots)

    def stop(self, slots: Sequence[int], kill: bool = False) -> None:
        self._backend.stop(slots, kill)

    def observe(self) -> Observation:
        if self._lost:
            self._ask()
            self._lost = False
        return self._backend.observe()

    def exit_status(self, slot: int) -> Ended:
        """Says how the actor ended; a broken connection is no failure of the actor."""
        ended = self._backend.exit_status(slot)
        if not self._backend.outlives and ended.exit_code == SSH_FAILED:
            self._lost = True
            return Ended(slot, 0, ended.last_words)
        return ended

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()

    @property
    def _backend(self) -> Backend:
        if self._kept is None:
            self._kept = self._choose(self._ask())
            self.interval = self._kept.interval
        return self._kept

    def _tool(self, *words: str) -> str:
        return run(*self._ssh, shlex.join(words), seconds=30.0)

    def _ask(self) -> dict[str, str]:
        """What the host says about itself; raises ToolError if it does not answer."""
        said = self._tool("sh", "-c", _QUESTION)
        for line in said.splitlines():
            if line.startswith("a3cd uid="):
                return dict(word.partition("=")[::2] for word in line.split()[1:])
        raise ToolError(f"ssh: {last_line(said) or 'no answer'}")

    def _choose(self, said: dict[str, str]) -> Backend:
        user = said["uid"] != "0"
        if said.get("user" if user else "system") in _UP and (not user or said.get("linger") == "yes"):
            whose = "the user" if user else "the system"
            _log.info(f"{self._host}: actors are units of {whose}'s systemd: {self._unit}*")
            environment = ("env", f"XDG_RUNTIME_DIR=/run/user/{said['uid']}") if user else ()
            return TransientBackend(self._unit, user=user, run=partial(self._tool, *environment), command=self._command)
        why = "the user's systemd does not linger" if said.get("user") in _UP else "no systemd there that keeps them"
        _log.info(f"{self._host}: actors are children of ssh and end with the connection: {why}")
        lock = f"{said.get('locks') or '/tmp'}/{self._unit}{said['uid']}" if said.get("flock") else ""
        return ProcessBackend(partial(self._child, lock), partial(actor_name, self.launcher))

    def _command(self, slot: int) -> str:
        """The command of the actor in a slot, a line for the host's shell."""
        return f"{self._actor} --name {shlex.quote(actor_name(self.launcher, slot))}"

    def _child(self, lock: str, slot: int) -> list[str]:
        """The ssh command for an actor as a child.

        `lock`: beginning of the names of lock files; empty: none. The new actor waits for its slot's lock, since after
        a broken connection the previous actor may live on until its sshd notices.
        """
        wait = ["flock", "-w", "600", f"{lock}-{slot}"] if lock else []
        before = shlex.join(("env", *(f"{name}={value}" for name, value in ONE_THREAD.items()), *wait))
        return [*self._ssh, f"exec {before} {self._command(slot)} --nice 10 --lifeline"]
