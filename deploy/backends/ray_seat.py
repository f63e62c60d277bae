"""What runs in a worker of Ray. It starts the actor as a process of its own, so the worker imports nothing of it."""

import platform
import sys
import threading
import time

from common.host.service import notify
from deploy.backends.process import ENDING_SECONDS, ONE_THREAD
from deploy.children import Child, Children, a3cd

_STOPPED = 143


class Seat:
    """Room for one actor; Ray calls its methods, two at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._stopped = False

    def host(self) -> str:
        """Returns the host's name. It is the first call: its answer shows that Ray has found room."""
        return platform.node()

    def run(self, words: list[str]) -> tuple[int, str]:
        """Runs the actor until it ends; returns its exit code and last lines.

        When this worker ends, for whatever reason, the actor ends, too.
        """
        quiet = threading.Event()
        with Children() as children:
            with self._lock:
                if self._stopped:
                    return _STOPPED, ""
                try:
                    environment = notify.inherited() | ONE_THREAD
                    command = a3cd(*words, "--lifeline")
                    self._child = children.start(command, _say, ended=quiet.set, environment=environment)
                except OSError as error:
                    return 127, f"cannot be started: {error}"
            while (code := self._child.exit_code) is None:
                quiet.wait(1.0)
                if self._child.silent:
                    time.sleep(ENDING_SECONDS)
            return code, "\n".join(self._child.last_lines)

    def stop(self, kill: bool) -> None:
        with self._lock:
            self._stopped = True
            if self._child is not None and self._child.exit_code is None:
                self._child.kill() if kill else self._child.terminate()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")  # Ray keeps it in the worker's log
