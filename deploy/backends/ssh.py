"""Actors on another host, reached by ssh: units of its systemd, or children of ssh where no systemd keeps them.

Keys only, and no host whose key is unknown. No secret is on a command line: each host has its own credential.
"""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Sequence
from functools import partial

from common.errors import ConfigurationError
from deploy.backends.base import Backend, Ended, Observation, actor_name, group_name
from deploy.backends.hosts import Host
from deploy.backends.process import ONE_THREAD, ProcessBackend
from deploy.backends.runner import Answer, Runner, ToolError, last_line
from deploy.backends.systemd import TransientBackend
from deploy.ssh import STRICT

TOOL_SECONDS = 30.0
_FIXED_KEYS = {option.partition("=")[0].lower() for option in STRICT}
_OPTION = re.compile(r"(?P<key>[A-Za-z0-9]+)=[^\r\n\0]+", re.ASCII)
_PROGRAM = re.compile(r"(?:~/|/)?[A-Za-z0-9_.+][A-Za-z0-9_.+/-]*", re.ASCII)
_SSH_FAILED = 255
_LOCK_SECONDS = 600
_QUESTION = (
    "uid=$(id -u); export XDG_RUNTIME_DIR=/run/user/$uid; echo a3cd uid=$uid"
    " system=$(systemctl is-system-running 2>/dev/null) user=$(systemctl --user is-system-running 2>/dev/null)"
    " linger=$(loginctl show-user $uid --property=Linger --value 2>/dev/null) flock=$(command -v flock)"
)
_UP = frozenset({"running", "degraded", "starting"})
_log = logging.getLogger(__name__)


def check_option(text: str) -> str:
    """An option of ssh, KEY=VALUE; raises ConfigurationError for one that a3cd sets itself."""
    match = _OPTION.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"{text!r}: write an option of ssh as KEY=VALUE, as in Port=2222")
    if match["key"].lower() in _FIXED_KEYS:
        raise ConfigurationError(f"{text!r}: a3cd sets {match['key']} itself ({', '.join(STRICT[:4])}, ...)")
    return text


def check_program(text: str) -> str:
    """The path of a3cd on other hosts; raises ConfigurationError for one that a shell would change."""
    if not _PROGRAM.fullmatch(text):
        raise ConfigurationError(
            f"{text!r} is no path of a3cd: letters, digits and any of ._+-/ as in /opt/a3cd/bin/a3cd"
        )
    return text


class SshRunner(Runner):
    """Runs tools on another host."""

    def __init__(self, ssh: Sequence[str]) -> None:
        """`ssh`: the words before the remote command."""
        super().__init__(TOOL_SECONDS)
        self._ssh = ssh
        self.environment: tuple[str, ...] = ()
        """More variables for the tools, NAME=VALUE."""

    def run(self, *words: str, stdin: str = "") -> Answer:
        environment = ("env", *self.environment) if self.environment else ()
        answer = super().run(*self._ssh, shlex.join((*environment, *words)), stdin=stdin)
        if answer.exit_code == _SSH_FAILED:
            raise ToolError(f"ssh: {last_line(answer.error) or 'the connection broke'}")
        return Answer(words[0], answer.exit_code, answer.out, answer.error)


class SshBackend(Backend):
    """The actors on one host. The first observation asks the host whether a systemd there can keep them.

    It can where root logs in to a host with systemd, or a user whose manager lingers (`loginctl enable-linger`).
    """

    outlives = True

    def __init__(
        self, host: Host, *, launcher: str, learner: str, words: Sequence[str], program: str, ssh: Sequence[str]
    ) -> None:
        """`words`: options of `a3cd actor` after the learner's address; `ssh`: the words before the remote command."""
        self._host = host
        self._launcher = f"{launcher}-{host.name}"
        self._unit = f"{group_name(launcher, learner)}-"
        self._program = program
        self._words = ["actor", learner, *words, "--launcher", launcher]
        self._ssh = ssh
        self._runner = SshRunner(ssh)
        self._kept: Backend | None = None
        """None: the host has not been asked yet."""
        self._lost = False
        """Whether a child's connection broke since the host last answered."""

    @property
    def interval(self) -> float:  # type: ignore[override]
        return 1.0 if self._kept is None else self._kept.interval

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
        """A connection that broke is no failure of the actor."""
        ended = self._backend.exit_status(slot)
        if not self._backend.outlives and ended.exit_code == _SSH_FAILED:
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
        return self._kept

    def _ask(self) -> dict[str, str]:
        """What the host says about itself; raises ToolError if it does not answer."""
        said = self._runner.run("sh", "-c", _QUESTION).check()
        lines = [line.split() for line in said.splitlines() if line.startswith("a3cd uid=")]
        if not lines:
            raise ToolError(f"sh: {last_line(said) or 'no answer'}")
        return dict(word.partition("=")[::2] for word in lines[-1][1:])

    def _choose(self, said: dict[str, str]) -> Backend:
        user = said["uid"] != "0"
        up = said.get("user" if user else "system") in _UP and (not user or said.get("linger") == "yes")
        name = self._host.name
        if up:
            _log.info(f"{name}: actors are units of {'the user' if user else 'the system'}'s systemd: {self._unit}*")
            self._runner.environment = (f"XDG_RUNTIME_DIR=/run/user/{said['uid']}",) if user else ()
            return TransientBackend(
                self._host.slots,
                user=user,
                unit=self._unit,
                runner=self._runner,
                program=self._program,
                words=self._actor,
            )
        why = "the user's systemd does not linger" if said.get("user") in _UP else "no systemd there that keeps them"
        _log.info(f"{name}: actors are children of ssh and end with the connection: {why}")
        lock = f"/tmp/{self._unit}{said['uid']}" if said.get("flock") else ""
        return ProcessBackend(partial(self._child, lock), partial(actor_name, self._launcher))

    def _actor(self, slot: int) -> list[str]:
        return [*self._words, "--name", actor_name(self._launcher, slot)]

    def _child(self, lock: str, slot: int) -> list[str]:
        """The lock: after a broken connection the actor before may live on until its sshd notices."""
        wait = ["flock", "-w", str(_LOCK_SECONDS), f"{lock}-{slot}"] if lock else []
        before = shlex.join(("env", *(f"{name}={value}" for name, value in ONE_THREAD.items()), *wait))
        words = [*self._actor(slot), "--nice", "10", "--lifeline"]
        return [*self._ssh, f"exec {before} {self._program} {shlex.join(words)}"]
