"""Against a driver of a few lines, which has actors on paper."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.backends.base import Ended, Observation
from deploy.backends.ray import RayBackend
from deploy.backends.ray_driver import Plan
from deploy.backends.runner import ToolError
from tests.helpers.programs import alive, lines

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
DRIVER = """
import json, os, socket, sys, time
from pathlib import Path
base = Path({base!r})
with (base / "pids").open("a") as file:
    file.write(f"{{os.getpid()}}\\n")
channel = socket.socket(fileno=int(sys.argv[2])).makefile("rwb")
def say(**answer):
    channel.write(json.dumps(answer).encode() + b"\\n")
    channel.flush()
plan = json.loads(channel.readline())
if plan["address"] == "nowhere:1":
    say(refused="ConnectionError: no Ray")
    sys.exit(75)
say()
alive = set()
for line in channel:
    ask = json.loads(line)
    if (base / "mute").exists():
        time.sleep(1000)
    if (base / "die").exists():
        os._exit(1)
    alive |= set(ask.get("start", ()))
    gone = alive & set(ask.get("stop", ())) | alive & set(ask.get("kill", ()))
    alive -= gone
    ended = [dict(slot=slot, exit_code=137 if "kill" in ask else 143, last_words="bye") for slot in gone]
    say(alive=sorted(alive), starting=[slot for slot in alive if slot > 3], ended=ended, note="")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "driver").write_text(DRIVER.format(base=str(tmp_path)))
    monkeypatch.setattr("deploy.backends.ray.a3cd", lambda *words: [sys.executable, str(tmp_path / "driver"), *words])
    return tmp_path


@pytest.fixture
def backend(nothing_left_behind: None, folder: Path) -> Iterator[RayBackend]:
    one = RayBackend(Plan("auto", "lab", ("actor", "tcp://gpu:5555")))
    yield one
    one.close()
    assert not any(alive(int(pid)) for pid in lines(folder / "pids"))


def test_actors_come_and_go(backend: RayBackend) -> None:
    assert not backend.outlives
    assert backend.observe() == Observation()
    backend.start([0, 2, 5])
    assert backend.observe() == Observation(frozenset({0, 2, 5}), frozenset({5}))
    backend.stop([0])
    backend.stop([2], kill=True)
    assert backend.observe().alive == {5}
    assert [backend.exit_status(slot) for slot in (0, 2)] == [Ended(0, 143, "bye"), Ended(2, 137, "bye")]


def test_what_a_start_would_be(backend: RayBackend) -> None:
    assert backend.shown(2) == "ray (auto): a3cd actor tcp://gpu:5555 --name lab-2"


def test_a_driver_that_dies_is_followed_by_another_and_its_actors_did_not_fail(
    backend: RayBackend, folder: Path
) -> None:
    backend.start([0])
    (folder / "die").touch()
    with pytest.raises(ToolError, match=r"^ray: auto: the connection to the cluster is gone; `ray status` must work"):
        backend.observe()
    (folder / "die").unlink()
    assert backend.observe() == Observation()
    assert backend.exit_status(0).exit_code == 0
    backend.start([0])
    assert backend.observe().alive == {0}
    assert len(lines(folder / "pids")) == 2


def test_a_driver_that_cannot_be_started_is_started_later(backend: RayBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as moment:
        moment.setattr("deploy.backends.ray.a3cd", lambda *_: ["/nowhere/python"])
        for _ in range(2):
            with pytest.raises(ToolError, match=r"^ray: its driver cannot be started: No such file or directory"):
                backend.observe()
    assert backend.observe() == Observation()


def test_a_driver_that_does_not_answer_is_ended(
    backend: RayBackend, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.start([0])
    (folder / "mute").touch()
    monkeypatch.setattr("deploy.backends.ray.ANSWER_SECONDS", 0.05)
    with pytest.raises(ToolError, match=r"^ray: auto: no answer within 0 s"):
        backend.observe()


def test_where_no_ray_is_it_is_asked_each_time_and_the_cure_is_told(folder: Path) -> None:
    backend = RayBackend(Plan("nowhere:1", "lab", ()))
    for _ in range(2):
        with pytest.raises(ToolError, match=r"^ray: no way to nowhere:1: ConnectionError: no Ray; `ray status` must"):
            backend.observe()
    backend.close()
    assert len(lines(folder / "pids")) == 2
