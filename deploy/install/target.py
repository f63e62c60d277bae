"""A host to install on: one ssh connection to look, and one to change what has to be changed."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from common.errors import EXIT_CONFIGURATION, ConfigurationError, UnavailableError
from common.host.service.logs import printable
from deploy.backends.hosts import Host, parse
from deploy.install.payload import PYTHON, Payload
from deploy.ssh import SSH_FAILED, ssh_command

_RECEIVE = (
    "sh -c 'umask 077; here=$(mktemp -d /var/tmp/a3cd.XXXXXX) || exit 1; "
    'trap "rm -rf $here" EXIT; trap "exit 1" HUP INT TERM; '
    'tar -xf - -C "$here" && sh "$here/remote_script.sh"\''
)
"""The remote command. It is the same for every payload, of which nothing is on a command line."""
MOST_SECONDS = 3600.0
"""Time limit of one connection, for all steps. Each step also has its own limit, and is named if it exceeds that."""


@dataclass(frozen=True)
class SshTarget:
    host: Host
    words: tuple[str, ...]
    """The ssh command without the remote command line."""
    python: str = PYTHON
    sudo: bool = False

    @classmethod
    def parse(cls, text: str, config: Path | None, python: str, sudo: bool) -> SshTarget:
        """From USER@HOST; `config` as `ssh -F` takes it. Raises ConfigurationError."""
        host = parse(text)
        if host.slots:
            raise ConfigurationError(f"{text!r}: write USER@HOST alone; the port belongs in ssh's own configuration")
        words = ssh_command(host.destination, config=str(config) if config else "")
        return cls(host, tuple(words), python, sudo)

    def apply(self, payload: Payload, due: Collection[str] = ()) -> Iterator[str]:
        """Yields what differs from the payload. With `due`, the lines that a call without it yielded, also changes it.

        Raises UnavailableError for a host that cannot be reached or a step that fails, ConfigurationError for one that
        would fail again.
        """
        return self.run(_RECEIVE, lambda file: payload.write(file, self.python, due))

    def run(self, line: str, write: Callable[[IO[bytes]], object]) -> Iterator[str]:
        """Yields the lines that the command prints after `write` has written its input."""
        command = [*self.words, f"sudo -n {line}" if self.sudo else line]
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
            except FileNotFoundError:
                raise UnavailableError(f"{command[0]} is not installed here") from None
            late = threading.Event()
            with process, _after(MOST_SECONDS, lambda: _late(late, process)):
                assert process.stdin is not None and process.stdout is not None
                with contextlib.suppress(BrokenPipeError), process.stdin:  # it may end early, and says why
                    write(process.stdin)
                for said in process.stdout:
                    yield printable(said.decode(errors="replace").rstrip("\n"))
            if late.is_set():
                raise UnavailableError(f"{self.host.destination}: not done after {MOST_SECONDS / 60:.0f} minutes")
            if process.returncode:
                errors.seek(0)
                why = printable(errors.read()[-2000:].decode(errors="replace").strip())
                why = why or f"exit code {process.returncode} without a word"
                if process.returncode == SSH_FAILED:
                    why += f" (`ssh {self.host.destination} true` must work without a question)"
                kind = ConfigurationError if process.returncode == EXIT_CONFIGURATION else UnavailableError
                raise kind(f"{self.host.destination}: {why}")


def _late(late: threading.Event, process: subprocess.Popen[bytes]) -> None:
    late.set()
    process.kill()


@contextlib.contextmanager
def _after(seconds: float, do: Callable[[], object]) -> Iterator[None]:
    """Calls `do` if the block takes longer than `seconds`."""
    timer = threading.Timer(seconds, do)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
