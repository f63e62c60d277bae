from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.backends.ray_seat import Seat
from tests.helpers.beside import beside
from tests.helpers.programs import alive, lines, program
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
ACTOR = """
import os, signal, sys, time
from pathlib import Path
base = Path({base!r})
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(*sys.argv[1:], os.environ["OMP_NUM_THREADS"], flush=True)
(base / "pid").write_text(str(os.getpid()))
if "wrong" in sys.argv:
    sys.exit(78)
sys.stdin.read() # the lifeline
"""


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the process id of an actor once it runs."""
    actor = program(tmp_path, "actor", ACTOR.format(base=str(tmp_path)))
    monkeypatch.setattr("deploy.backends.ray_seat.a3cd", lambda *words: [str(actor), *words])
    return tmp_path / "pid"


def test_how_an_actor_ended(begun: Path) -> None:
    seat = Seat()
    assert seat.run(["wrong", "--name", "lab-1"]) == (78, "wrong --name lab-1 --lifeline 1")
    seat.stop(kill=False)  # too late, and no error


@pytest.mark.parametrize(
    ("word", "kill", "code"), [("", False, 128 + signal.SIGTERM), ("deaf", True, 128 + signal.SIGKILL)]
)
def test_one_that_is_to_leave(begun: Path, word: str, kill: bool, code: int) -> None:
    seat = Seat()

    def script() -> None:
        until(lambda: lines(begun), "the actor")
        seat.stop(kill=False)
        if kill:
            seat.stop(kill=True)

    assert beside(script, lambda: seat.run([word]))[0] == code
    assert not alive(int(begun.read_text()))


def test_one_that_is_to_leave_before_it_came(begun: Path) -> None:
    seat = Seat()
    seat.stop(kill=False)
    assert seat.run([]) == (143, "")
    assert not begun.exists()


def test_one_that_closed_its_output_is_looked_at_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Ending:
        silent, last_lines = True, ("bye",)

        @property
        def exit_code(self) -> int | None:
            seen.append("look")
            return None if len(seen) < 5 else 0

    class Started(contextlib.nullcontext["Started"]):
        def __enter__(self) -> Started:
            return self

        def start(self, *_: object, ended: Callable[[], None], **__: object) -> Ending:
            ended()
            return Ending()

    monkeypatch.setattr("deploy.backends.ray_seat.Children", Started)
    monkeypatch.setattr("deploy.backends.ray_seat.time.sleep", lambda _: seen.append("pause"))
    assert Seat().run([]) == (0, "bye")
    assert seen == ["look", "pause", "look", "pause", "look"]


def test_without_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.backends.ray_seat.a3cd", lambda *words: ["/no/a3cd", *words])
    code, words = Seat().run([])
    assert (code, words.startswith("cannot be started: ")) == (127, True)


def test_its_host() -> None:
    assert Seat().host()
