from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from common.errors import RefusedError
from common.run.status import RunStatus
from common.wire.messages import Stop
from deploy.dashboard import following
from deploy.dashboard.folder import FolderReader
from deploy.dashboard.following import Open, follow_folder, follow_learner, past_of
from deploy.dashboard.watched import WatchedRun
from tests.deploy.dashboard.test_folder import run_folder
from tests.helpers.status import run_status

Step = RunStatus | Stop | Exception | None


class Script:
    """Gives what it was told to, then asks to stop."""

    def __init__(self, stopped: Event, *steps: Step) -> None:
        self._stopped, self._steps = stopped, list(steps)
        self.ended: Stop | None = None
        self.opened = 0

    @contextmanager
    def open(self) -> Iterator[Script]:
        self.opened += 1
        yield self

    def next(self, seconds: float) -> RunStatus | None:
        step = self._steps.pop(0) if self._steps else None
        if not self._steps:
            self._stopped.set()
        if isinstance(step, Exception):
            raise step
        if isinstance(step, Stop):
            self.ended = step
            return None
        return step


def follow(*steps: Step) -> tuple[WatchedRun, Script]:
    stopped = Event()
    script, run = Script(stopped, *steps), WatchedRun("learner", "tcp://gpu-box:5555", time.time())
    source: Open = script.open
    follow_learner(run, source, stopped)
    return run, script


def test_statuses_go_into_the_run() -> None:
    run, _ = follow(run_status(), None, run_status(frames=1_204_400, seconds=725.0))
    assert run.sample("seconds", None, None, 10)[1]["seconds"] == [724, 725]
    assert run.status is not None


def test_the_learners_goodbye_is_told() -> None:
    run, _ = follow(run_status(), Stop(reason="the goal is reached", final=True))
    assert run.summary(0, time.time())["ended"] == "the goal is reached"


def test_who_is_refused_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "AGAIN_SECONDS", 0.0)
    run, script = follow(RefusedError("another protocol"), run_status())
    assert script.opened == 2
    assert run.answered


def test_a_refusal_stays_on_the_page() -> None:
    run, _ = follow(RefusedError("another protocol"))
    assert isinstance(run.problem, RefusedError)


def test_the_past_is_that_of_the_same_run_only(tmp_path: Path) -> None:
    run_folder(tmp_path)
    past = past_of(run_status(run="ab12", run_dir=str(tmp_path)))
    assert past is not None
    assert len(past.history) == 3
    assert past_of(run_status(run="other", run_dir=str(tmp_path))) is None


@pytest.mark.parametrize("where", ["/nowhere/at/all", "", "bad\0name"])
def test_a_folder_on_another_host_is_no_error(where: str) -> None:
    assert past_of(run_status(run_dir=where)) is None


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl"])
def test_a_pipe_in_the_folder_that_a_learner_names_is_not_waited_for(tmp_path: Path, name: str) -> None:
    run_folder(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    assert past_of(run_status(run="ab12", run_dir=str(tmp_path))) is None


class StopAfter(Event):
    """Is set after so many waits."""

    def __init__(self, waits: int, between: Callable[[], object] = int) -> None:
        super().__init__()
        self._waits, self._between = waits, between

    def wait(self, timeout: float | None = None) -> bool:
        self._waits -= 1
        self._between()
        if self._waits <= 0:
            self.set()
        return self.is_set()


def test_a_folder_that_goes_away_is_a_problem_until_it_is_back(tmp_path: Path) -> None:
    run_folder(tmp_path)
    record = tmp_path / "run.json"
    run = WatchedRun("folder", "runs/x", 1.0)
    away = iter([lambda: record.rename(tmp_path / "away"), lambda: (tmp_path / "away").rename(record), int])
    problems: list[object] = []

    def between() -> None:
        problems.append(run.problem)
        next(away)()

    follow_folder(run, FolderReader(tmp_path), StopAfter(3, between))
    assert [bool(problem) for problem in problems] == [False, True, False]
    assert "holds no run" in str(problems[1])
