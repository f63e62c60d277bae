from __future__ import annotations

from typing import Any

import pytest

from common.run.status import CheckpointStatus, QuarantineStatus, RunStatus
from deploy.dashboard.events import between, between_rows
from tests.helpers.status import evaluation_status, fleet_status, peer_status, relay_status, run_status


def told(before: RunStatus | None, **changed: Any) -> list[tuple[str, str]]:
    after = run_status(**({} if before is None else {"time": 50.0}) | changed)
    return [(event.kind, event.text) for event in between(before, after)]


def test_the_first_status_says_what_is_watched() -> None:
    assert told(None, epoch=2) == [("run", "watched from here: FlappyBird-v0, a3c, running, epoch 2")]


def test_an_event_has_both_times() -> None:
    (event,) = between(run_status(), run_status(state="reached", time=12.0, seconds=3.0))
    assert (event.time, event.seconds, event.text) == (12.0, 3.0, "running, now reached")


def test_nothing_has_happened() -> None:
    assert told(run_status(), frames=2_000_000, lag_mean=3.0, actors_now=11) == []


def test_actors_join_leave_and_are_started_again() -> None:
    before = run_status(actors=[peer_status(name="a"), peer_status(name="b", pid=1), peer_status(name="c")])
    after = [peer_status(name="b", pid=2), peer_status(name="d")]
    assert told(before, actors=after) == [
        ("actors", "d joined"),
        ("actors", "a, c left"),
        ("actors", "b joined again as another process"),
    ]


def test_a_thousand_that_join_are_one_line() -> None:
    actors = [peer_status(name=f"lab-{number:04}") for number in range(1000)]
    assert told(run_status(), actors=actors) == [("actors", "lab-0000, lab-0001, lab-0002 and 997 more joined")]


def test_an_actors_new_error_is_told() -> None:
    before = run_status(actors=[peer_status(last_error="old")])
    assert told(before, actors=[peer_status(last_error="a wall")]) == [("trouble", "lab-01: a wall")]
    assert told(before, actors=[peer_status(last_error="old")]) == []


def test_relays_come_and_go_as_actors_do() -> None:
    before = run_status(relays=[relay_status(name="a"), relay_status(name="b")])
    after = [relay_status(name="b", last_error="there-1: a wall"), relay_status(name="c")]
    assert told(before, relays=after) == [
        ("actors", "relay c joined"),
        ("actors", "relay a left"),
        ("trouble", "relay b: there-1: a wall"),
    ]


def test_a_scaling_decision_has_its_reason() -> None:
    before = run_status()
    assert told(before, actors_wanted=14, why="longer episodes: 13 -> 14") == [("scaling", "longer episodes: 13 -> 14")]


def test_what_holds_an_addition_back_is_told_once_however_its_figures_change() -> None:
    before = run_status(why="held at 13 actors: learner busy 81 %")
    assert told(before, why="held at 13 actors: learner busy 85 %") == []
    assert told(before, why="held at 13 actors: lag 1.7") == [("scaling", "held at 13 actors: lag 1.7")]
    assert told(before, why="mean episode 23.2 s") == []


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({}, {"gave_up": True, "exit_code": 78, "why": "x"}, "launcher gpu-box cannot start actors (exit code 78): x"),
        ({"gave_up": True}, {}, "launcher gpu-box starts actors again"),
        ({"failed": 2}, {"failed": 4, "why": "killed"}, "on gpu-box 2 actors failed: killed"),
        ({"failed": 4}, {"failed": 2}, None),
    ],
)  # fmt: skip
def test_launchers(before: dict[str, Any], after: dict[str, Any], text: str | None) -> None:
    found = told(run_status(launchers=[fleet_status(**before)]), launchers=[fleet_status(**after)])
    assert [one for _, one in found] == ([] if text is None else [text])


def test_a_launcher_comes_and_another_goes() -> None:
    found = told(run_status(launchers=[fleet_status(name="a")]), launchers=[fleet_status(name="b")])
    assert found == [("launchers", "launcher b joined"), ("launchers", "launcher a left")]


def test_the_learner_is_started_again() -> None:
    found = told(run_status(frames=2_000_000), epoch=2, frames=1_500_000)
    assert found == [("run", "the learner was started again: epoch 2, back to 1,500,000 frames")]


def test_another_run_is_told_and_not_compared() -> None:
    assert told(run_status(actors=[peer_status()]), run="other") == [("run", "another run: FlappyBird-v0, a3c")]


def test_better_weights_and_a_return_to_the_best() -> None:
    found = told(
        run_status(), best_evaluation=evaluation_status(), returns_to_best=1, learning_rate_factor=0.5
    )  # fmt: skip
    assert found == [
        ("evaluation", "the best weights are of version 20,000: mean return 91.5 (88.2 to 94.8) over 40 episodes"),
        ("checkpoint", "back to the best checkpoint, learning rate times 0.5"),
    ]


def test_a_checkpoint_that_fails_and_goes_on() -> None:
    failing = {"checkpoint": CheckpointStatus(error="disk full")}
    assert told(run_status(), **failing) == [("trouble", "the checkpoint could not be written: disk full")]
    assert told(run_status(**failing)) == [("checkpoint", "checkpoints are written again")]


def test_quarantine_begins_and_ends() -> None:
    out = {"quarantined": [QuarantineStatus(name="lab-02", place="10.0.0.7", why="NaN", seconds_left=120.0)]}
    assert told(run_status(), **out) == [("trouble", "lab-02 is kept out for 120 s: NaN")]
    assert told(run_status(**out)) == [("actors", "lab-02 may come back")]


def test_new_warnings_and_health_whose_figures_change() -> None:
    before = run_status(health=["entropy is gone (0.01 nats)"], warnings=["a"])
    found = told(before, health=["entropy is gone (0.02 nats)", "the return falls"], warnings=["a", "b"])
    assert found == [("trouble", "the return falls"), ("trouble", "b")]


def test_rows_of_metrics_tell_of_scaling_actors_and_restarts() -> None:
    first = {"time": 5.0, "seconds": 1.0, "frames": 100, "actors": 0, "actors_wanted": 2, "why": "fixed: 2 actors"}
    second = first | {"seconds": 2.0, "actors": 2}
    third = second | {"frames": 50, "actors": 1, "evaluation_version": 7, "evaluation_return": 9.5}
    rows = [between_rows(None, first), between_rows(first, second), between_rows(second, third)]
    assert [[(event.kind, event.text) for event in row] for row in rows] == [
        [("run", "the first row of the run's metrics"), ("scaling", "fixed: 2 actors")],
        [("actors", "2 actors joined: there are 2")],
        [
            ("run", "the learner was started again, back to 50 frames"),
            ("actors", "1 actor left: there are 1"),
            ("evaluation", "version 7: mean return 9.5"),
        ],
    ]
    assert (rows[1][0].time, rows[1][0].seconds) == (5.0, 2.0)


def test_a_row_of_anything_is_no_error() -> None:
    assert [event.kind for event in between_rows({"why": None}, {"why": 3, "actors": "many", "time": None})] == []
