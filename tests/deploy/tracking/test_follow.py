"""Following a folder, by a tracker that only takes notes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError, UnavailableError
from common.host import file_lock
from common.run.folder import RunFolder
from deploy.tracking import follow
from deploy.tracking.follow import Follower, Outcome
from deploy.tracking.rows import Row
from deploy.tracking.tracker import Target, TrackedRun
from tests.helpers.run_folders import run_folder

TARGET = Target("p")


class Noting:
    """All trackers that were opened, one after the other; `fails`: what the next calls raise, None: nothing."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, TrackedRun, Target]] = []
        self.rows: list[Row] = []
        self.ended: list[tuple[str, Mapping[str, float]]] = []
        self.closed = 0
        self.fails: list[Exception | None] = []

    def open(self, kind: str, run: TrackedRun, target: Target) -> Noting:
        self._fail()
        self.opened.append((kind, run, target))
        return self

    def log(self, rows: Sequence[Row]) -> None:
        self._fail()
        self.rows += rows

    def conclude(self, state: str, summary: Mapping[str, float]) -> None:
        self._fail()
        self.ended.append((state, summary))

    def close(self) -> None:
        self.closed += 1

    def _fail(self) -> None:
        if self.fails and (error := self.fails.pop(0)) is not None:
            raise error


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> Noting:
    one = Noting()
    monkeypatch.setattr(follow, "open_tracker", one.open)
    monkeypatch.setattr(follow, "QUIET_SECONDS", 0.0)
    return one


def followed(folder: Path, *looks: Callable[[], object], target: Target = TARGET) -> tuple[Outcome, list[float]]:
    """Each `looks` is called in place of a wait, and the one after the last says to stop; all waits."""
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        if not seconds:
            return False
        waits.append(seconds)
        if len(waits) > len(looks):
            return True
        looks[len(waits) - 1]()
        return False

    return Follower(RunFolder(folder), "wandb", target).follow(wait), waits


def add(folder: Path, *frames: int) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps({"time": 1e9 + one, "frames": one}) + "\n" for one in frames)


def test_a_run_that_is_over_is_told_whole(noting: Noting, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "x", "seed=3", returns=[1.0, 2.0, 3.0], summary={"mean_return": 3.0, "env": "E"})
    outcome, waits = followed(folder)
    assert (outcome, waits) == (Outcome(3, "reached"), [])
    assert [row.figures["mean_return"] for row in noting.rows] == [1.0, 2.0, 3.0]
    ((state, summary),) = noting.ended
    assert state == "reached" and summary["mean_return"] == 3.0 and "env" not in summary
    ((kind, run, target),) = noting.opened
    assert (kind, run.id, run.name, target) == ("wandb", "0123456789abcdef", "x", TARGET)
    assert run.settings["seed"] == 3
    assert noting.closed == 1


def test_it_is_followed_while_it_goes_on(noting: Noting, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "x", returns=[])
    with RunFolder(folder).lock_file.open("wb") as lock:
        file_lock.lock(lock, wait=False)

        def end() -> None:
            add(folder, 3)
            (folder / "summary.json").write_text('{"epoch": 1, "state": "stopped", "frames": 3}')

        outcome, waits = followed(folder, lambda: None, lambda: add(folder, 1), lambda: add(folder, 2), end)
    assert outcome == Outcome(3, "stopped")
    assert [row.frames for row in noting.rows] == [1, 2, 3]
    assert noting.ended == [("stopped", {"epoch": 1.0, "frames": 3.0})]
    assert set(waits) == {follow.LOOK_SECONDS}


def test_who_has_much_to_tell_stops_between_two_parts_of_it(noting: Noting, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "x", returns=[])
    add(folder, *range(3 * follow.AT_ONCE))
    follower = Follower(RunFolder(folder), "wandb", TARGET)
    assert follower.follow(lambda _: bool(noting.rows)).rows == follow.AT_ONCE
    assert followed(folder)[0].rows == 2 * follow.AT_ONCE


def test_the_summary_of_an_earlier_epoch_is_none(noting: Noting, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "x", summary={}, epoch=2)
    with RunFolder(folder).lock_file.open("wb") as lock:
        file_lock.lock(lock, wait=False)
        outcome, _ = followed(folder)
    assert (outcome, noting.ended) == (Outcome(2, "running"), [])


def test_a_learner_that_is_gone_is_not_waited_for(noting: Noting, tmp_path: Path) -> None:
    outcome, _ = followed(run_folder(tmp_path / "x"))
    assert outcome == Outcome(2, "interrupted")
    assert noting.ended == [("interrupted", {})]


def test_asked_again_it_goes_on_where_it_was(noting: Noting, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "x")
    assert followed(folder)[0].rows == 2
    assert followed(folder)[0].rows == 0
    add(folder, 3000)
    assert followed(folder)[0].rows == 1
    assert [row.number for row in noting.rows] == [0, 1, 2]
    assert followed(folder, target=Target("another"))[0].rows == 3, "which has none of it"


def test_a_place_that_cannot_be_read_is_the_beginning(noting: Noting, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "x")
    (folder / "trackers").mkdir()
    (folder / "trackers" / "wandb.json").write_text("nonsense")
    assert followed(folder)[0].rows == 2


def test_what_a_tracker_does_not_take_it_is_given_again(
    noting: Noting, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = run_folder(tmp_path / "x", returns=[])
    with RunFolder(folder).lock_file.open("wb") as lock:
        file_lock.lock(lock, wait=False)
        away, broken = OSError("the network is away"), RuntimeError("x" * 500 + "\nmore")
        noting.fails = [away, None, away, None, broken]
        add(folder, 1)
        outcome, waits = followed(folder, *[lambda: None] * 3, lambda: add(folder, 2))
    assert [row.frames for row in noting.rows] == [1, 2]
    assert outcome == Outcome(2, "running")
    assert waits[:5] == [2.0, 4.0, 8.0, follow.LOOK_SECONDS, follow.LOOK_SECONDS], "longer until it goes well"
    assert noting.closed == 3
    assert "wandb: the network is away; tried again in 2 s" in caplog.text
    assert max(len(record.message) for record in caplog.records) < 300


def test_a_tracker_that_never_takes_it_ends_it_when_the_run_is_over(noting: Noting, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "x", summary={})
    noting.fails = [OSError("away")] * 9
    with pytest.raises(UnavailableError, match="wandb: away; the same command goes on from where it is"):
        followed(folder, *[lambda: None] * 9)
    noting.fails = []
    assert followed(folder)[0] == Outcome(2, "reached")
    assert len(noting.rows) == 2


def test_a_mistake_of_the_operators_ends_it_at_once(noting: Noting, tmp_path: Path) -> None:
    noting.fails = [ConfigurationError("nobody is logged in")]
    with pytest.raises(ConfigurationError, match="nobody is logged in"):
        followed(run_folder(tmp_path / "x"))


def test_a_full_disk_costs_the_place_alone(
    noting: Noting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(follow, "replace_file", full)
    folder = run_folder(tmp_path / "x")
    assert followed(folder)[0].rows == 2
    assert "wandb.json: No space left on device" in caplog.text
    assert followed(folder)[0].rows == 2


def test_where_nothing_can_be_followed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no run"):
        Follower(RunFolder(tmp_path), "wandb", TARGET)
    folder = run_folder(tmp_path / "x")
    (folder / "trackers").write_text("a file")
    with pytest.raises(UnavailableError, match="trackers: File exists"):
        Follower(RunFolder(folder), "wandb", TARGET)
