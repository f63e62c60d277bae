import json
import logging
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from common.errors import UnavailableError
from common.run.status import FleetStatus, HostStatus, KeyStatus, PeerStatus, RunStatus
from common.wire.messages import Stop
from deploy.cli.view import progress, report
from tests.helpers.status import relay_status

PATIENCE = 20.0


def test_everything_is_in_it(
    run_status: Callable[..., RunStatus], peer: Callable[..., PeerStatus], fleet: Callable[..., FleetStatus]
) -> None:
    status = run_status(
        actors=[peer(name=f"lab-{number:02d}") for number in range(30)],
        hosts=[HostStatus(name="lab", actors=30, processor=0.42, memory=3_000_000_000, memory_total=16_000_000_000)],
        keys=[
            KeyStatus(name="attic", roles=["actor"], peers=0, seen=None),
            KeyStatus(name="lab", roles=["actor", "observer"], peers=30, seen=65.0),
        ],
        disk_free=900_000_000,
        relays=[relay_status()],
        launchers=[
            fleet(restarts={"a": 1, "b": 9, "c": 2, "d": 3}),
            fleet(name="lab", gave_up=True, exit_code=78, why="no environment " * 9),
        ],
        warnings=[f"warning {number} " * 12 for number in range(6)],
        why="because " * 20 + "done",
    )
    console = Console(width=80, file=StringIO(), record=True)
    console.print(report.render(status))
    shown = console.export_text()
    for expected in (
        "lab-00",
        "lab-29",
        "there-1",
        "gave up",
        "warning 0",
        "warning 5",
        "done",
        "9649236e67ffe1b7",
        "runs/x",
    ):
        assert expected in shown
    for expected in ("42 %  3.0 GB of 16.0 GB", "1:05 ago  actor, observer", "–  actor", "b 9x", "c 2x"):
        assert expected in shown
    assert "! the disk of the run folder has 900.0 MB left" in shown
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) == 80


def test_a_look_on_stdout(start_learner: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    learner = start_learner()
    report.run(learner.access, watch=False, as_json=False, timeout=PATIENCE)
    out, err = capsys.readouterr()
    assert "1,204,320" in out
    assert err == ""


def test_a_look_as_json_is_the_whole_status(
    start_learner: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    learner = start_learner()
    report.run(learner.access, watch=False, as_json=True, timeout=PATIENCE)
    assert json.loads(capsys.readouterr().out) == learner.report


@pytest.mark.parametrize(
    ("told", "extras"),
    [
        ({"env": "CartPole-v1", "network": "dense", "exchange": "gradients"}, ""),
        ({"env": "CartPole-v1", "network": "dense lstm 16", "exchange": "gradients"}, "torch"),
        ({"env": "FlappyBird-v0", "network": "my:Net", "exchange": "trajectories"}, "flappy,torch"),
        ({"env": "FlappyBird-v0", "network": "conv-a3c", "exchange": "actions"}, "flappy"),
    ],
)
def test_the_extras_are_those_that_an_actor_needs(
    start_learner: Callable[..., Any], told: dict[str, str], extras: str
) -> None:
    assert report.extra(start_learner(**told).access, PATIENCE) == extras


@pytest.fixture
def ending_learner(start_learner: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Says that the run is over as soon as it has been looked at once."""
    learner = start_learner(warnings=["it hurts"])
    look = report.observer.Observer.next

    def look_and_end(self: Any, seconds: float) -> RunStatus | None:
        status = look(self, seconds)
        if status is not None:
            learner.answers = False
            learner.say(Stop(reason="it plays", final=True))
        return status

    monkeypatch.setattr(report.observer.Observer, "next", look_and_end)
    monkeypatch.setattr(progress, "FIRST_SECONDS", 1000.0)
    return learner


def test_watching_until_the_end(ending_learner: Any, capsys: pytest.CaptureFixture[str]) -> None:
    report.run(ending_learner.access, watch=True, as_json=False, timeout=PATIENCE)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["warning: it hurts", "the run is over: it plays"]


def test_watching_as_json_is_an_object_a_line(ending_learner: Any, capsys: pytest.CaptureFixture[str]) -> None:
    report.run(ending_learner.access, watch=True, as_json=True, timeout=PATIENCE)
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[0]) == ending_learner.report
    assert err == "the run is over: it plays\n"


def test_nobody_there(start_learner: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    learner = start_learner()
    learner.stop()
    with caplog.at_level(logging.INFO), pytest.raises(UnavailableError):
        report.run(learner.access, watch=False, as_json=False, timeout=0.1)
