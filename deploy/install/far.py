"""The program that takes the steps on a host: sent there as text, so the standard library alone, Python 3.7 or newer.

Reads on standard input a line with a length, so many bytes of JSON, and the bytes of the files that are to be written,
one after the other. Answers with a line of JSON for each step. Each kind of step is a check, which changes nothing, and
an act, which makes the check come true.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

if TYPE_CHECKING:  # Python 3.7 cannot make it
    Step = dict[str, Any]

_CHUNK = 1 << 20
_LAST_CHARACTERS = 2000


class StepError(Exception):
    """A step cannot be taken, in one line for a person."""


class Host:
    """This machine, or a folder that stands for it."""

    def __init__(self, root: str, inlet: BinaryIO) -> None:
        """`inlet` brings the content of files; `root` is empty or the folder."""
        self.root = root
        self.inlet = inlet
        self.changed: set[str] = set()

    def path(self, written: str) -> Path:
        """Where a path of a step is on this machine."""
        found = Path(written).expanduser()
        return Path(self.root, *found.parts[1:]) if self.root else found

    def words(self, argv: list[Any]) -> list[str]:
        """A command line; words that are paths are marked as such."""
        return [str(self.path(word["path"])) if isinstance(word, dict) else word for word in argv]

    def run(self, argv: list[Any]) -> tuple[int, str]:
        """Exit code and output."""
        environment = dict(os.environ, LC_ALL="C.UTF-8", SYSTEMD_PAGER="cat", SYSTEMD_COLORS="0")
        if hasattr(os, "getuid"):  # a session by ssh alone may lack it, and the user's manager is found by it
            environment.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
        words = self.words(argv)
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            done = subprocess.run(words, stdin=nothing, stdout=pipe, stderr=subprocess.STDOUT, env=environment)
        except OSError as error:
            return 127, f"{words[0]}: {error.strerror}"
        return done.returncode, done.stdout.decode(errors="replace").strip()


def _mode_is(path: Path, mode: Any) -> bool:
    return mode is None or path.stat().st_mode & 0o7777 == mode


def _folder_good(host: Host, step: Step) -> bool:
    path = host.path(step["path"])
    return path.is_dir() and _mode_is(path, step["mode"])


def _folder_make(host: Host, step: Step) -> None:
    path = host.path(step["path"])
    path.mkdir(parents=True, exist_ok=True)
    if step["mode"] is not None:
        path.chmod(step["mode"])


def _file_good(host: Host, step: Step) -> bool:
    path = host.path(step["path"])
    if not path.is_file():
        return False
    return step["keep"] or (_mode_is(path, step["mode"]) and _digest(path) == step["digest"])


def _digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            total.update(chunk)
    return total.hexdigest()


def _file_write(host: Host, step: Step) -> None:
    """Whole or not at all, and never readable by more than its mode says."""
    path = host.path(step["path"])
    partial = path.with_name(f".{path.name}.partial")
    if partial.exists():
        partial.unlink()
    with os.fdopen(os.open(str(partial), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for chunk in _content(host.inlet, step["bytes"]):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    partial.chmod(step["mode"])
    partial.replace(path)


def _content(inlet: BinaryIO, left: int) -> Iterator[bytes]:
    while left:
        chunk = inlet.read(min(left, _CHUNK))
        if not chunk:
            raise StepError("the connection ended in the middle of a file")
        left -= len(chunk)
        yield chunk


def _absent_good(host: Host, step: Step) -> bool:
    path = host.path(step["path"])
    return not path.exists() and not path.is_symlink()


def _absent_make(host: Host, step: Step) -> None:
    path = host.path(step["path"])
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(str(path))
    else:
        path.unlink()


def _command_good(host: Host, step: Step) -> bool:
    unless = step["unless"]
    return bool(unless) and all(_HOLDS[name](host, given) for name, given in unless.items())


def _command_run(host: Host, step: Step) -> str:
    code, output = host.run(step["argv"])
    if code:
        raise StepError(f"{' '.join(host.words(step['argv']))}: exit code {code}: {output[-_LAST_CHARACTERS:]}")
    if "marked" in step["unless"]:
        path, text = step["unless"]["marked"]
        host.path(path).write_text(text)
    return output if step["tell"] else ""


def _marked(host: Host, given: list[str]) -> bool:
    path = host.path(given[0])
    return path.is_file() and path.read_text() == given[1]


def _prints(host: Host, given: list[list[Any]]) -> bool:
    """Every line is one of those that are right."""
    lines = host.run(given[0])[1].splitlines()
    return bool(lines) and all(line.strip() in given[1] for line in lines)


_HOLDS: dict[str, Callable[[Host, Any], bool]] = {
    "unchanged": lambda host, names: not host.changed & set(names),
    "exists": lambda host, path: host.path(path).exists(),
    "absent": lambda host, path: not host.path(path).exists(),
    "marked": _marked,
    "prints": _prints,
    "succeeds": lambda host, argv: host.run(argv)[0] == 0,
}
_KINDS: dict[str, tuple[Callable[[Host, Step], bool], Callable[[Host, Step], Any]]] = {
    "folder": (_folder_good, _folder_make),
    "file": (_file_good, _file_write),
    "absent": (_absent_good, _absent_make),
    "command": (_command_good, _command_run),
}


def take(host: Host, step: Step, act: bool) -> tuple[str, str]:
    """Takes a step, or only looks: good (nothing to do), due, done; and what there is to tell."""
    good, make = _KINDS[step["kind"]]
    if good(host, step):
        for _ in _content(host.inlet, step.get("bytes", 0)):
            pass  # it was due a moment ago: what was sent for it is not for the next file
        return "good", ""
    host.changed.add(step["name"])
    return ("done", make(host, step) or "") if act else ("due", "")


def unmet(needs: dict[str, Any]) -> str:
    """What this machine lacks, in one line; empty: nothing."""
    least = tuple(needs["python"])
    if sys.version_info[:2] < least:
        here = ".".join(map(str, sys.version_info[:2]))
        return f"{sys.executable} is Python {here}; a3cd needs {'.'.join(map(str, least))}: name one with --python"
    if needs["root"] and hasattr(os, "getuid") and os.getuid() != 0:
        return "only root may install system units: deploy to root@HOST, or with --sudo, or --user for user units"
    if shutil.which("systemctl") is None:
        return "there is no systemctl: this host does not run systemd"
    return ""


def main(inlet: BinaryIO, outlet: TextIO) -> int:
    """The whole conversation; the exit code."""
    request = json.loads(inlet.read(int(inlet.readline())).decode())
    lacking = unmet(request["needs"])
    if lacking:
        outlet.write(json.dumps({"state": "failed", "text": lacking}) + "\n")
        return 1
    host = Host(request["root"], inlet)
    os.umask(0o022)
    for step in request["steps"]:
        try:
            state, text = take(host, step, request["act"])
        except (StepError, OSError) as error:
            state, text = "failed", str(error)
        outlet.write(json.dumps({"name": step["name"], "state": state, "text": text}) + "\n")
        outlet.flush()
        if state == "failed":
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.stdin.buffer, sys.stdout))
