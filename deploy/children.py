"""The daemons that `train` starts: ended with it, whatever ends it, and their lines passed on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Self

from common.host.service.lifeline import Lifeline
from deploy.child import Child


class Children:
    """Context manager: what still runs at its end is killed."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """`say` takes the lines of all of them, from threads of their own."""
        self._say = say
        self._lifeline = Lifeline()
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        """Nothing runs yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kills and reaps."""
        for child in self._children:
            child.wait(0.0)
        self._lifeline.close()

    def start(self, *arguments: str, keep_open: Sequence[int] = ()) -> Child:
        """`a3cd` with these arguments; what it writes to standard output is thrown away.

        It inherits the descriptors `keep_open`.
        """
        command = [sys.executable, "-P", "-m", "deploy.cli.command", *arguments, "--lifeline"]
        child = Child(command, self._lifeline, self._say, stdout=False, keep_open=keep_open)
        self._children.append(child)
        return child
