"""With an `ssh` that runs the line on this machine; a real one is in tests/hosts and tests/systemd."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from deploy.backends.base import Ended
from deploy.backends.hosts import Host
from deploy.backends.process import ProcessBackend
from deploy.backends.runner import ToolError
from deploy.backends.ssh import SshBackend
from deploy.backends.systemd import TransientBackend
from deploy.ssh import ssh_command
from tests.helpers.programs import alive, first_in_path, lines, program, words_of
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
SSH = """
import os, subprocess, sys
from pathlib import Path
base = Path({base!r})
if (base / "denied").exists():
    sys.exit((sys.stderr.write("ann@h2: Permission denied (publickey).\\n"), 255)[1])
assert sys.argv[-3:-1] == ["--", "ann@h2"], sys.argv
sys.exit(subprocess.run(["sh", "-c", sys.argv[-1]]).returncode)
"""
ACTOR = """
import json, os, sys, time
from pathlib import Path
from common.host.service import lifeline
lifeline.watch()
with open(Path({base!r}, "actors"), "a") as file:
    file.write(json.dumps([os.getpid(), os.environ["OMP_NUM_THREADS"], *sys.argv[1:]]) + "\\n")
time.sleep(600)
"""


class Lab:
    """A host that is this machine, with programs of its own."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.open: list[SshBackend] = []
        program(base, "ssh", SSH.format(base=str(base)))
        program(base, "a3cd", ACTOR.format(base=str(base)))
        self.says()

    def close(self, backend: SshBackend) -> None:
        self.open.remove(backend)
        backend.close()

    def says(self, uid: int = 1000, system: str = "offline", user: str = "offline", linger: str = "no") -> None:
        """What it answers when it is asked."""
        program(self.base, "id", f"print({uid})")
        program(self.base, "systemctl", f"import sys; print({user!r} if '--user' in sys.argv else {system!r})")
        program(self.base, "loginctl", f"print({linger!r})")

    def actors(self) -> list[list[str]]:
        """Process id, threads and words of each that began."""
        return [json.loads(line) for line in lines(self.base / "actors")]

    def running(self, *words: str) -> list[psutil.Process]:
        """Processes of this test whose command line has these words."""
        return [one for one in psutil.Process().children(recursive=True) if {*words} <= {*words_of(one)}]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("PATH", first_in_path(tmp_path))
    return Lab(tmp_path)


Make = Callable[[], SshBackend]
LOCKS = [Path(os.environ.get("XDG_RUNTIME_DIR", "/run")), Path("/run"), Path("/tmp")]
"""Where lock files may be: in the first that can be written."""


@pytest.fixture
def make(nothing_left_behind: None, lab: Lab) -> Iterator[Make]:
    def backend() -> SshBackend:
        one = SshBackend(
            Host("ann@h2", 2),
            launcher=lab.base.name,
            group=f"a3cd-{lab.base.name}",
            learner="tcp://gpu:5555",
            words=["--insecure"],
            program="a3cd",
            ssh=ssh_command("ann@h2"),
        )
        lab.open.append(one)
        return one

    yield backend
    while lab.open:
        lab.close(lab.open[0])
    until(lambda: not any(alive(int(actor[0])) for actor in lab.actors()), "the actors' end")
    for folder in LOCKS:
        for lock in folder.glob(f"a3cd-{lab.base.name}-*"):
            lock.unlink()


@pytest.mark.parametrize(
    ("says", "kind", "text"),
    [
        ({"uid": 0, "system": "running"}, TransientBackend, "units of the system's systemd"),
        ({"user": "degraded", "linger": "yes"}, TransientBackend, "units of the user's systemd"),
        (
            {"user": "running"},
            ProcessBackend,
            "children of ssh and end with the connection: the user's systemd does not linger",
        ),
        ({"system": "running", "linger": "yes"}, ProcessBackend, "no systemd there that keeps them"),
        ({"uid": 0}, ProcessBackend, "no systemd there that keeps them"),
    ],
)
def test_the_host_is_asked_once_what_keeps_the_actors(
    make: Make, lab: Lab, says: dict[str, str], kind: type, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lab.says(**says)  # type: ignore[arg-type]
    backend = make()
    assert isinstance(backend._backend, kind)
    assert backend._backend is backend._backend
    assert backend.interval == backend._backend.interval
    assert text in caplog.text


def test_children_end_with_the_backend(make: Make, lab: Lab) -> None:
    backend = make()
    assert backend.observe().alive == set()
    backend.start([0, 1])
    until(lambda: len(lab.actors()) == 2)
    assert backend.observe().alive == {0, 1}
    name = lab.base.name
    words = ["actor", "tcp://gpu:5555", "--insecure", "--launcher", name, "--name"]
    assert sorted(actor[1:] for actor in lab.actors()) == [
        ["1", *words, f"{name}-h2-{slot}", "--nice", "10", "--lifeline"] for slot in range(2)
    ]
    backend.stop([0])
    until(lambda: backend.observe().alive == {1})
    lab.close(backend)
    until(lambda: not any(alive(int(actor[0])) for actor in lab.actors()))


def test_an_actor_waits_until_the_one_before_is_gone(make: Make, lab: Lab) -> None:
    """After a cut its sshd may not have noticed that nobody is there any more."""
    if shutil.which("flock") is None:
        pytest.skip("not installed: flock")
    first, second = make(), make()
    first.start([0])
    until(lambda: len(lab.actors()) == 1)
    second.start([0])
    until(lambda: len(lab.running("flock", "-w")) == 2, "the second one waits")
    (lock,) = {word for one in lab.running("flock", "-w") for word in words_of(one) if word.startswith("/")}
    assert Path(lock).parent == next(folder for folder in LOCKS if os.access(folder, os.W_OK))
    assert len(lab.actors()) == 1
    lab.close(first)
    until(lambda: len(lab.actors()) == 2)


def test_a_broken_connection_is_no_failure_of_the_actor(make: Make, lab: Lab) -> None:
    backend = make()
    backend.observe()
    (lab.base / "denied").touch()
    backend.start([0])
    until(lambda: backend.observe().alive == set())
    assert backend.exit_status(0) == Ended(0, 0, "ann@h2: Permission denied (publickey).")
    with pytest.raises(ToolError, match="Permission denied"):
        backend.observe()
    (lab.base / "denied").unlink()
    assert backend.observe().alive == set()
    backend.start([0])
    until(lambda: len(lab.actors()) == 1)


def test_why_there_is_no_connection(make: Make, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = make()
    (lab.base / "denied").touch()
    with pytest.raises(ToolError, match=r"^ssh: ann@h2: Permission denied \(publickey\)\. \(exit code 255\)$"):
        backend.observe()
    (lab.base / "denied").unlink()
    assert backend.observe().alive == set()
    program(lab.base, "ssh", "print('Welcome to the lab!')")
    with pytest.raises(ToolError, match="Welcome to the lab!"):
        make().observe()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match=r"^ssh: cannot be run: "):
        make().observe()
