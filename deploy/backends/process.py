"""Actors as child processes, each started afresh (never a fork of a process that uses ZeroMQ)."""

import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial

from common.host.service import notify
from deploy.backends.base import Backend, Ended, Observation
from deploy.children import Child, Children

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
"""An actor uses one core and no GPU."""
ENDING_SECONDS = 0.02
"""Time between two observations while an actor has closed its output, most likely because it is about to end."""


class ProcessBackend(Backend):
    """Children that end with this process; what they write goes to stderr, each line after the actor's name."""

    def __init__(self, command: Callable[[int], list[str]], name: Callable[[int], str]) -> None:
        """`command`, `name`: give the command line and the name of the actor in a slot."""
        self._command = command
        self._name = name
        self._children = Children()
        self._running: dict[int, Child] = {}
        self._ended: dict[int, Ended] = {}

    def shown(self, slot: int) -> str:
        return shlex.join(self._command(slot))

    def start(self, slots: Sequence[int]) -> None:
        environment = notify.inherited() | ONE_THREAD
        for slot in slots:
            say = partial(_say, self._name(slot))
            try:
                self._running[slot] = self._children.start(
                    self._command(slot), say, ended=self._changed, environment=environment
                )
            except OSError as error:
                self._ended[slot] = Ended(slot, 127, f"cannot be started: {error}")

    def stop(self, slots: Sequence[int], kill: bool = False) -> None:
        for slot in slots:
            if child := self._running.get(slot):
                child.kill() if kill else child.terminate()

    def observe(self) -> Observation:
        for slot, child in list(self._running.items()):
            exit_code = child.exit_code
            if exit_code is not None:
                del self._running[slot]
                self._ended[slot] = Ended(slot, exit_code, "\n".join(child.last_lines))
        ending = any(child.silent for child in self._running.values())
        self.interval = ENDING_SECONDS if ending else type(self).interval
        return Observation(frozenset(self._running))

    def _changed(self) -> None:
        self.changed()

    def exit_status(self, slot: int) -> Ended:
        return self._ended.pop(slot)

    def close(self) -> None:
        self._children.close()


def _say(name: str, text: str) -> None:
    sys.stderr.write(f"{name}  {text}\n")
