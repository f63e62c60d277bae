from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from deploy.backends.base import Backend, Ended
from deploy.backends.process import ProcessBackend
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

SLEEPS = "import os, time; print('ready', flush=True); open(f'ready-{os.getpid()}', 'w').close(); time.sleep(60)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPS
DIES = "import sys; print('trying'); sys.stdout.flush(); sys.exit('no such thing')"
CHATTERS = "import sys\nfor n in range(50): print(n, 'x' * 5000, file=sys.stderr)"
SHOWS = (
    "import os; print(*[os.environ.get(n) for n in ('OMP_NUM_THREADS','CUDA_VISIBLE_DEVICES','NOTIFY_SOCKET','OTHER')])"
)
PARENT_OF_A_HOLDER = (
    "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)"
)
LAUNCHER = """
import sys, time
from deploy.backends.process import ProcessBackend
from tests.helpers.waiting import until
child = "from common.host.service import lifeline; import time; lifeline.watch(); print('up', flush=True); "
child += "time.sleep(60)"
backend = ProcessBackend(lambda slot: [sys.executable, "-c", child], str)
backend.start([0, 1])
time.sleep(60)
"""

Make = Callable[[str], ProcessBackend]


@pytest.fixture
def make(nothing_left_behind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.chdir(tmp_path)
    made: list[ProcessBackend] = []

    def backend(script: str) -> ProcessBackend:
        made.append(ProcessBackend(lambda slot: [sys.executable, "-c", script], "actor-{}".format))
        return made[-1]

    yield backend
    for one in made:
        one.close()


def end_of(backend: ProcessBackend, slot: int = 0) -> Ended:
    until(lambda: slot not in backend.observe().alive, "its end")
    return backend.exit_status(slot)


def test_it_says_when_an_actor_may_have_ended_and_until_then_is_seldom_asked(make: Make) -> None:
    backend = make(DIES)
    changed = threading.Event()
    backend.changed = changed.set
    backend.start([0])
    assert changed.wait(30)
    end_of(backend)
    assert backend.interval == Backend.interval


def test_one_that_has_closed_its_output_is_asked_often(make: Make) -> None:
    backend = make("import os, time; os.close(1); os.close(2); time.sleep(60)")
    backend.start([0])
    assert backend.observe().alive == {0}
    until(lambda: backend.observe() and backend.interval < Backend.interval, "a look at its end")
    assert backend.observe().alive == {0}


def wait_ready(count: int) -> None:
    """Until so many children have left a file in their working folder, which is this process's."""
    until(lambda: len(list(Path().glob("ready-*"))) >= count)


def test_a_child_that_dies_at_once(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    backend = make(DIES)
    backend.start([7])
    assert end_of(backend, 7) == Ended(7, 1, "trying\nno such thing")
    assert backend.observe().alive == set()
    out, err = capfd.readouterr()
    assert err == "actor-7  trying\nactor-7  no such thing\n"
    assert out == ""


def test_stop_asks(make: Make) -> None:
    backend = make(SLEEPS)
    backend.start([0, 1])
    wait_ready(2)
    assert backend.observe().alive == {0, 1}
    backend.stop([1])
    assert end_of(backend, 1) == Ended(1, 143, "ready")
    assert backend.observe().alive == {0}
    backend.stop([1])
    backend.stop([1], kill=True)


def test_one_that_does_not_listen_is_killed_with_all_it_started(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    backend = make(f"import os; os.fork(); {DEAF}")
    backend.start([0])
    wait_ready(2)
    backend.stop([0])
    backend.stop([0])
    assert backend.observe().alive == {0}
    backend.stop([0], kill=True)
    assert end_of(backend).exit_code == 137  # and the fixture sees whether its child is left


def test_stopping_one_that_is_gone_but_not_observed_yet(make: Make) -> None:
    backend = make(DIES)
    backend.start([0])
    (child,) = psutil.Process().children()
    until(lambda: child.status() == psutil.STATUS_ZOMBIE)
    backend.stop([0])
    backend.stop([0], kill=True)
    assert end_of(backend).exit_code == 1


def test_close_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    backend = ProcessBackend(lambda slot: [sys.executable, "-c", DEAF], str)
    backend.start([0, 1, 2])
    children = psutil.Process().children()
    backend.close()
    assert not any(child.is_running() for child in children)


def test_a_command_that_is_not_there() -> None:
    backend = ProcessBackend(lambda slot: ["/no/such/python"], str)
    backend.start([2])
    assert backend.observe().alive == set()
    ended = backend.exit_status(2)
    assert (ended.slot, ended.exit_code) == (2, 127)
    assert "/no/such/python" in ended.last_words
    backend.close()


def test_last_words_are_the_last_and_bounded(make: Make) -> None:
    backend = make(CHATTERS)
    backend.start([0])
    lines = end_of(backend).last_words.split("\n")
    assert len(lines) == 10
    assert max(map(len, lines)) <= 4096
    assert lines[-2].startswith("49 x")


def test_a_closed_stderr_does_not_stop_the_reading(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def write(self, text: str) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Broken())
    backend = make(CHATTERS)
    backend.start([0])
    ended = end_of(backend)
    assert ended.exit_code == 0
    assert ended.last_words


def test_an_end_is_told_although_a_grandchild_holds_the_pipe(make: Make) -> None:
    backend = make(PARENT_OF_A_HOLDER)
    backend.start([0])
    ended = end_of(backend)
    assert ended.exit_code == 0
    psutil.Process(int(ended.last_words)).kill()


def test_environment(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/notify")
    monkeypatch.setenv("OTHER", "kept")
    backend = make(SHOWS)
    backend.start([0])
    assert end_of(backend).last_words == "1  None kept"


def test_children_are_in_a_session_of_their_own(make: Make) -> None:
    backend = make("import os; print(os.getsid(0) == os.getpid())")
    backend.start([0])
    assert end_of(backend).last_words == "True"


def test_children_end_with_a_launcher_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", LAUNCHER], stderr=subprocess.PIPE, text=True) as launcher:
        assert launcher.stderr is not None
        assert sorted(launcher.stderr.readline() for _ in range(2)) == ["0  up\n", "1  up\n"]
        children = psutil.Process(launcher.pid).children()
        assert len(children) == 2
        launcher.kill()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
