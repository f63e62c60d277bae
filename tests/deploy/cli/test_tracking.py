from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import EXIT_CONFIGURATION, EXIT_DONE
from deploy.cli import tracking
from deploy.cli.tracking import Tracking
from tests.helpers.stage import FakeChild

RUN = Path("runs/a b")


class Started:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.children: list[FakeChild] = []
        self.said: list[str] = []
        self.full = False
        self.tracking = Tracking(self.start, RUN, ["wandb", "mlflow"])
        monkeypatch.setattr(tracking, "END_SECONDS", 0.1)
        monkeypatch.setattr(tracking, "STOPPED_SECONDS", 0.0)

    def start(self, *words: str) -> FakeChild:
        if self.full:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        self.children.append(FakeChild(words))
        return self.children[-1]

    def end(self, *, stopped: bool = False) -> None:
        self.tracking.end(self.said.append, stopped=stopped)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


def test_each_is_started_once_and_waited_for(started: Started) -> None:
    started.tracking.begin()
    started.tracking.begin()
    commands = [child.arguments for child in started.children]
    assert commands == [("track", "runs/a b", "--to", "wandb"), ("track", "runs/a b", "--to", "mlflow")]
    for child in started.children:
        child.exit_code = EXIT_DONE
    started.end()
    assert started.said == []


@pytest.mark.parametrize("stopped", [False, True])
def test_who_is_not_done_is_stopped_and_how_it_goes_on_is_said(started: Started, stopped: bool) -> None:
    started.tracking.begin()
    slow, failed = started.children
    failed.exit_code = EXIT_CONFIGURATION
    started.end(stopped=stopped)
    assert slow.asked and not failed.asked
    assert started.said == [
        "wandb has not been told everything: a3cd track 'runs/a b' --to wandb; "
        "wandb sync 'runs/a b'/trackers/wandb/run-*",
        "mlflow has not been told everything: a3cd track 'runs/a b' --to mlflow",
    ]


def test_where_no_process_can_be_started_it_is_tried_again_and_said_at_the_end(started: Started) -> None:
    started.full = True
    started.tracking.begin()
    started.end()
    assert [line.partition(" ")[0] for line in started.said] == ["wandb", "mlflow"]
    started.full = False
    started.tracking.begin()
    assert len(started.children) == 2


def test_a_run_that_never_began_is_not_told_of(started: Started) -> None:
    started.end()
    assert started.said == []
