"""The benchmark of other libraries: drivers, their lines, the tables; scripts stand for peers, and pip is not asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peers, tables
from benchmarks.peer_drivers import driver
from benchmarks.peers import Peer, Run
from benchmarks.runs import RunFailedError
from tests.helpers.programs import alive
from tests.helpers.waiting import until

LINE: dict[str, Any] = {
    "versions": {"python": "3.11", "torch": "2"},
    "began": 103.0,
    "ended": 108.0,
    "frames": 500,
    "reached": True,
    "training_return": 480.0,
    "return": 500.0,
}


def script(folder: Path, text: str) -> Peer:
    folder.mkdir(exist_ok=True)
    (folder / "fake.py").write_text(text, encoding="utf-8")
    return Peer((), "fake.py", {"CartPole-v1": 2})


def test_a_line_becomes_a_run() -> None:
    run = peers.read("noise\n" + json.dumps(LINE) + "\n", started=100.0)
    assert run.figures() == (8.0, 5.0, 3.0, 100.0, 480.0, 500.0)


def test_who_has_not_reached_the_goal_has_no_time_to_it() -> None:
    run = peers.read(json.dumps(LINE | {"reached": False, "return": None}), started=100.0)
    assert run.figures() == (None, None, 3.0, 100.0, 480.0, None)


@pytest.mark.parametrize(
    "said", ["", "no result", "[1]", json.dumps({"began": 1.0}), json.dumps(LINE | {"ended": None})]
)
def test_another_line_is_refused(said: str) -> None:
    with pytest.raises(RunFailedError, match="its last line is no result"):
        peers.read(said, started=100.0)


def test_a_driver_is_told_what_to_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "DRIVERS", tmp_path)
    peer = script(
        tmp_path,
        "import json, os\n"
        "from benchmarks.peer_drivers.driver import Progress, read_order\n"
        "order = read_order()\n"
        "progress = Progress(order)\n"
        "progress.begin()\n"
        "progress.frames = order.seed * order.threads * int(os.environ['OMP_NUM_THREADS'])\n"
        "[progress.episode(order.goal) for _ in range(100)]\n"
        "assert progress.over() and progress.over()\n"
        "progress.report([], [float(order.episodes), 0.0])\n",
    )
    run = peers.drive(peer, Path(sys.executable), driver.Order("CartPole-v1", 7, 1000.0, 475.0, 5), 2)
    assert run.reached
    assert run.frames == 7 * 2 * 2
    assert run.training_return == 475.0
    assert run.played == 2.5
    assert run.start > 0.0
    assert set(run.versions) == {"python", "torch", "gymnasium", "numpy"}


def test_a_driver_that_fails_is_left_out_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "DRIVERS", tmp_path)
    monkeypatch.setitem(peers.PEERS, "fake", script(tmp_path, "raise SystemExit('no such game')"))
    assert peers.attempt("fake", Path(sys.executable), driver.Order("CartPole-v1", 0, 1.0, 475.0, 1), 2) is None
    assert "fake, CartPole-v1, seed 0: exit code 1\n  no such game" in capsys.readouterr().err


def test_a_driver_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    child = f"import os, time; open({str(said)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(600)"
    with pytest.raises(RunFailedError, match="did not end within 10 s"):
        peers.output((sys.executable, "-c", parent), {}, 10.0)
    pid = int(said.read_text(encoding="utf-8"))
    until(lambda: not alive(pid), "the end of the child")


def test_the_goal_is_a_mean_of_a_hundred_episodes() -> None:
    progress = driver.Progress(driver.Order("CartPole-v1", 0, 1000.0, 475.0, 20, 1))
    progress.begin()
    for _ in range(99):
        progress.episode(500.0)
    assert not progress.over()
    progress.episode(500.0)
    assert progress.over()
    assert progress.reached


def test_training_ends_with_its_time() -> None:
    progress = driver.Progress(driver.Order("CartPole-v1", 0, 0.0, 475.0, 20, 1))
    assert not progress.begun
    progress.begin()
    assert progress.begun
    assert progress.over()
    assert not progress.reached


def test_a_peer_is_installed_once_and_again_when_what_it_needs_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def run(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        (tmp_path / "fake").mkdir(exist_ok=True)
        asked.append(tuple(command))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(peers.subprocess, "run", run)
    monkeypatch.setitem(peers.PEERS, "fake", Peer(("one", "two<3"), "fake.py"))
    python = peers.install("fake", tmp_path)
    assert python == peers.install("fake", tmp_path)
    (_, install) = asked
    assert install[-2:] == ("one", "two<3")
    constraints = Path(install[install.index("--constraint") + 1]).read_text(encoding="utf-8")
    assert constraints.startswith("torch==")
    assert "+" not in constraints
    monkeypatch.setitem(peers.PEERS, "fake", Peer(("one",), "fake.py"))
    peers.install("fake", tmp_path)
    assert len(asked) == 4


def test_a_peer_that_pip_refuses_is_no_installed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        (tmp_path / "fake").mkdir(exist_ok=True)
        return subprocess.CompletedProcess(command, int("pip" in command))

    monkeypatch.setattr(peers.subprocess, "run", run)
    monkeypatch.setitem(peers.PEERS, "fake", Peer(("one",), "fake.py"))
    for _ in range(2):
        with pytest.raises(SystemExit, match="pip could not install fake"):
            peers.install("fake", tmp_path)


def test_the_table_shows_medians_of_the_runs_that_ended_well(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(tables, "_shown", shown)

    def run(seconds: float, reached: bool) -> Run:
        return Run(1.0, seconds, 100, reached, None, 20.0, {"torch": "2"})

    runs = {
        ("CartPole-v1", "one"): [run(2.0, True), run(4.0, True), run(50.0, False), None],
        ("ALE/Pong-v5", "one"): [None] * 4,
    }
    peers.show(runs, [0, 1, 2, 3], 60.0, 1)
    versions, every, medians = shown
    assert versions["rows"] == [["one", "torch 2"]]
    assert len(every["rows"]) == 8
    assert medians["rows"] == [
        ["CartPole-v1", "one", "1", "3/4", "2/4", 4.0, 3.0, 1.0, 25.0, None, 20.0],
        ["ALE/Pong-v5", "one", "1", "0/4", "-", None, None, None, None, None, None],
    ]


def test_no_peer_has_more_threads_than_cores() -> None:
    peer = Peer((), "fake.py", {"ALE/Pong-v5": 2})
    assert peer.threads_on(2, "ALE/Pong-v5") == 2
    assert peer.threads_on(1, "ALE/Pong-v5") == 1
    assert peer.threads_on(2, "CartPole-v1") == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system binds no process to cores")
def test_a_benchmark_that_may_use_one_core_says_so() -> None:
    script = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    script += "from benchmarks import peers; print(peers.restrict_cores(), len(os.sched_getaffinity(0)))"
    said = subprocess.run([sys.executable, "-c", script], cwd=tables.ROOT, capture_output=True, text=True, check=True)
    assert said.stdout == "1 1\n"


def test_the_drivers_are_there() -> None:
    assert all((peers.DRIVERS / peer.driver).is_file() for peer in peers.PEERS.values())
