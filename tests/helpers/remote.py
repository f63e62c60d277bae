"""Hosts that are folders: an `ssh` that runs the relay here, with holders whose actors are sleepers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.programs import alive, first_in_path, lines, program, until

SSH = """
import os, sys
from pathlib import Path
base = Path({base!r})
host = sys.argv[sys.argv.index("--") + 1]
assert sys.argv[-2:] == ["a3cd", "hold"]
if (base / host / "denied").exists():
    sys.exit((sys.stderr.write(f"{{host}}: Permission denied (publickey).\\n"), 255)[1])
os.environ["HOST"] = host
from deploy.hold import relay
sys.exit(relay.run(base / host, holder=[sys.executable, {holder!r}]))
"""
HOLDER = """
import os, sys
from pathlib import Path
from deploy.hold import holder
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
base = Path({base!r}, os.environ["HOST"])
with open(base / "holder", "a") as file:
    file.write(f"{{os.getpid()}}\\n")
holder.IDLE_SECONDS = 1.0
def actor(greeting, name):
    return [sys.executable, "-c", {actor!r}, str(base / f"{{name}}.pids")]
sys.exit(holder.serve(Path(given["--serve"]), int(given["--lock"]), int(given["--listener"]), actor))
"""
ACTOR = """
import os, sys, time
from common.host.service import lifeline
lifeline.watch()
print("at work", flush=True)
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(600)
"""


class Remote:
    """The hosts."""

    def __init__(self, base: Path, *hosts: str) -> None:
        self.base = base
        for host in hosts:
            (base / host).mkdir()
        holder = program(base, "holder", HOLDER.format(base=str(base), actor=ACTOR))
        (base / "bin").mkdir()
        program(base / "bin", "ssh", SSH.format(base=str(base), holder=str(holder)))
        self.path = first_in_path(base / "bin")

    def actors(self, host: str) -> dict[str, list[int]]:
        """Those alive: process ids by name."""
        found = {}
        for file in (self.base / host).glob("*.pids"):
            pids = [pid for pid in map(int, file.read_text().split()) if alive(pid)]
            if pids:
                found[file.stem] = pids
        return found

    def count(self) -> int:
        """Actors on all hosts."""
        return sum(
            len(pids) for path in self.base.iterdir() if path.is_dir() for pids in self.actors(path.name).values()
        )

    def holders(self, host: str) -> list[int]:
        """Process ids, the newest last."""
        return [int(line) for line in lines(self.base / host / "holder")]

    def close(self) -> None:
        """No process is left."""
        pids = [pid for path in self.base.iterdir() if path.is_dir() for pid in self.holders(path.name)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        until(lambda: self.count() == 0, "the actors' end")
        until(lambda: not any(map(alive, pids)), "the holders' end")


@contextlib.contextmanager
def remote(*hosts: str) -> Iterator[Remote]:
    """In a short path: a Unix socket's has at most a hundred characters."""
    base = Path(tempfile.mkdtemp(prefix="a3cd-"))
    one = Remote(base, *hosts)
    try:
        yield one
    finally:
        one.close()
        shutil.rmtree(base)
