"""Actors as child processes on this machine, each started afresh (never a fork of a process that uses ZeroMQ)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from common.host.service import notify
from common.host.service.lifeline import Lifeline
from deploy.backends.base import Backend, Ended
from deploy.child import Child

_NOT_STARTED = 127


def actor_name(launcher: str, slot: int) -> str:
    """What the actor in `slot` of a launcher is called; its successor has the same name."""
    return f"{launcher}-{slot}"


def actor_command(way: Sequence[str], launcher: str, name: str) -> list[str]:
    """Command line of an actor on this machine; `way`: the learner's address, and the options that go with it.

    -P, since the working folder may hold a `common` of its own.
    """
    command = [sys.executable, "-P", "-m", "deploy.cli.command", "actor", *way]
    return [*command, "--name", name, "--launcher", launcher, "--lifeline"]


def actor_environment() -> dict[str, str]:
    """One thread, no GPU, and nothing of what systemd told this process about itself."""
    return notify.inherited() | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


class ProcessBackend(Backend):
    """Children that end with this process; what they print goes to stderr, line by line, under their name."""

    def __init__(
        self,
        command: Callable[[int], list[str]],
        name: Callable[[int], str],
        say: Callable[[str], None] | None = None,
        keep_open: Sequence[int] = (),
    ) -> None:
        """`command` and `name` of the actor in a slot; `say` takes its lines; it inherits `keep_open`."""
        self._command = command
        self._name = name
        self._say = say or _to_stderr
        self._keep_open = keep_open
        self._lifeline = Lifeline()
        self._children: dict[int, Child] = {}
        self._stillborn: dict[int, Ended] = {}

    def start(self, slot: int) -> None:
        """Starts a child, out of reach of the terminal's Ctrl-C."""
        name = self._name(slot)
        try:
            self._children[slot] = Child(
                self._command(slot),
                self._lifeline,
                lambda text: self._say(f"{name}  {text}"),
                environment=actor_environment(),
                keep_open=self._keep_open,
            )
        except OSError as error:
            self._stillborn[slot] = Ended(slot, _NOT_STARTED, f"cannot be started: {error}")

    def stop(self, slot: int, kill: bool = False) -> None:
        """SIGTERM (Windows: Ctrl-Break) to the actor; SIGKILL to it and all it started."""
        child = self._children.get(slot)
        if child is not None:
            child.kill() if kill else child.terminate()

    def poll(self) -> list[Ended]:
        """Reaps children; a child is told of once its output has been read."""
        ended, self._stillborn = list(self._stillborn.values()), {}
        for slot, child in list(self._children.items()):
            exit_code = child.exit_code
            if exit_code is not None:
                del self._children[slot]
                ended.append(Ended(slot, exit_code, "\n".join(child.last_lines)))
        return ended

    @property
    def running(self) -> set[int]:
        """Slots whose end `poll` has not told yet."""
        return {*self._children, *self._stillborn}

    def close(self) -> None:
        """Kills and reaps."""
        for child in self._children.values():
            child.kill()
        for child in self._children.values():
            child.wait(0.0)
        self._children.clear()
        self._lifeline.close()


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
