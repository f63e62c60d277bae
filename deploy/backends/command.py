"""Actors that another program starts: it is told how many are wanted, and does the rest."""

import shlex
from collections.abc import Sequence

from deploy.backends.base import Backend, Ended, Observation, Requests
from deploy.backends.runner import run

COUNT = "{count}"


class CommandBackend(Backend):
    """Runs the program, without a shell, when the number of wanted actors changes, and again while it fails.

    Nothing shows what becomes of the actors: those that the program was told of count as running. A program that failed
    may have begun some, and so may an earlier launcher's, so it is certain only after a success with 0 that there are
    none.
    """

    outlives = True

    def __init__(self, command: Sequence[str], learner: str) -> None:
        """In each word of `command`, {count} and {learner} are replaced."""
        self._command = [word.replace("{learner}", learner) for word in command]
        self._running: set[int] = set()
        self._told: int | None = None
        """The number that the program was last told with success; None: none yet, or it failed at the last one."""

    def request(self, requests: Requests) -> None:
        if requests.planned not in (None, self._told):
            self._told = None
            run(*(word.replace(COUNT, str(requests.planned)) for word in self._command), seconds=60.0)
            self._told = requests.planned
        super().request(requests)

    def shown(self, slot: int) -> str:
        return shlex.join(word.replace(COUNT, str(slot + 1)) for word in self._command)

    def start(self, slots: Sequence[int]) -> None:
        self._running.update(slots)

    def stop(self, slots: Sequence[int], kill: bool = False) -> None:  # noqa: ARG002
        self._running.difference_update(slots)

    def observe(self) -> Observation:
        return Observation(frozenset(self._running), unsure=self._told != 0)

    def exit_status(self, slot: int) -> Ended:
        return Ended(slot, 0)
