from __future__ import annotations

import msgspec

from common.errors import RefusedError
from common.run.status import PeerStatus
from deploy.dashboard.events import Event
from deploy.dashboard.watched import ACTOR_FIELDS, EVENTS, FIGURES, SILENT_SECONDS, Past, WatchedRun, known, row
from learner.run import METRICS
from tests.helpers.status import evaluation_status, fleet_status, peer_status, relay_status, run_status

WHERE = "tcp://gpu-box:5555"


def watched() -> WatchedRun:
    return WatchedRun("learner", WHERE, 100.0)


def texts(run: WatchedRun) -> list[str]:
    return [event.text for event in run.details(0)["events"]]


def test_before_the_first_answer() -> None:
    run = watched()
    run.looked(101.0)
    summary = run.summary(0, 103.0)
    assert not run.answered
    assert (summary["away"], summary["answered"], summary["env"], summary["problem"]) == (3.0, False, None, "")
    assert run.details(0)["actors"] == []
    assert run.status is None


def test_an_answer_gives_figures_peers_and_a_row() -> None:
    run = watched()
    run.took(101.0, run_status(actors=[peer_status()], relays=[relay_status()], launchers=[fleet_status()]))
    summary, details = run.summary(3, 101.5), run.details(0)
    assert (summary["number"], summary["away"], summary["env"], summary["mean_return"]) == (
        3,
        None,
        "FlappyBird-v0",
        87.3,
    )
    assert details["actors"][0][:2] == ["lab-01", "lab"]
    assert [relay.site for relay in details["relays"]] == [{"there-0": 812.5, "there-1": 790.0}]
    assert details["figures"]["lag_p95"] == 4.0
    assert not {"actors", "relays", "launchers"} & set(details["figures"])
    assert run.sample("seconds", None, None, 10)[1]["mean_return"] == [87.3]
    assert msgspec.json.encode([summary, details])
    assert run.status is not None


def test_events_are_told_once() -> None:
    run = watched()
    run.took(101.0, run_status())
    told = run.details(0)["told"]
    run.took(102.0, run_status(state="reached"))
    details = run.details(told)
    assert [event.text for event in details["events"]] == ["running, now reached"]
    assert run.details(details["told"])["events"] == []
    assert len(run.details(details["told"] + 5)["events"]) == 2, "seen at a dashboard that was restarted since"
    assert len(run.details(0)["events"]) == 2


def test_events_are_bounded_and_the_newest_are_kept() -> None:
    run = watched()
    for number in range(EVENTS + 5):
        run.took(101.0, run_status(actors_wanted=number, why=f"decision {number}"))
    details = run.details(0)
    assert len(details["events"]) == EVENTS
    assert details["told"] == EVENTS + 5
    assert details["events"][-1].text == f"decision {EVENTS + 4}"
    assert len(run.details(EVENTS)["events"]) == 5


def test_a_learner_that_leaves_is_away_since_its_last_answer_until_it_answers_again() -> None:
    run = watched()
    run.took(101.0, run_status())
    run.looked(101.0 + SILENT_SECONDS)
    assert run.summary(0, 110.0)["away"] is None
    run.looked(102.0 + SILENT_SECONDS)
    summary = run.summary(0, 161.0)
    assert (summary["away"], summary["away_since"]) == (60.0, 101.0)
    assert run.status is None
    run.took(170.0, run_status(epoch=2))
    assert run.summary(0, 170.0)["away"] is None
    assert texts(run)[1:] == [
        "the learner does not answer",
        "the learner was started again: epoch 2",
        "the learner answers again",
    ]


def test_a_learner_that_says_goodbye_has_ended_until_it_is_back() -> None:
    run = watched()
    run.took(101.0, run_status())
    for now in (105.0, 106.0):
        run.ended(now, "the goal is reached")
    assert run.summary(0, 110.0)["ended"] == "the goal is reached"
    assert run.summary(0, 110.0)["away_since"] == 105.0
    assert texts(run)[1:] == ["the learner has ended: the goal is reached"]
    run.took(170.0, run_status())
    assert run.summary(0, 170.0)["ended"] == ""


def test_a_refusal_is_a_problem_until_there_is_an_answer() -> None:
    run = watched()
    for now in (101.0, 111.0):
        run.failed(now, RefusedError("another protocol"))
    assert run.summary(0, 112.0)["problem"] == "another protocol"
    assert texts(run) == ["another protocol"]
    run.took(120.0, run_status())
    assert run.problem is None


def test_what_the_folder_tells_of_the_time_before_comes_with_the_first_status() -> None:
    past = Past(settings='environment.id = "x"')
    past.read({"seconds": float(second), "frames": second, "mean_return": 1.0, "actors": 2} for second in range(3))
    run = watched()
    run.took(101.0, run_status(), past)
    assert run.sample("seconds", None, None, 10)[1]["seconds"] == [0, 1, 2, 724]
    assert run.settings == 'environment.id = "x"'
    assert texts(run)[-1].startswith("watched from here")
    assert "the first row of the run's metrics" in texts(run)


def test_another_run_at_the_address_begins_anew() -> None:
    run = watched()
    run.took(101.0, run_status(frames=5_000_000))
    run.took(102.0, run_status(run="other", seconds=1.0))
    assert run.sample("seconds", None, None, 10)[1]["seconds"] == [1.0]


def test_a_folder_is_read_again_and_again() -> None:
    run, past = WatchedRun("folder", "runs/x", 100.0), Past()
    past.read([{"seconds": 1.0, "frames": 10, "actors": 2, "mean_return": 3.0, "raw": {"entropy": 1.0}}])
    run.read(101.0, past, {"env": "CartPole-v1", "state": "running"})
    past.read([{"seconds": 2.0, "frames": 20, "actors": 1}])
    for now in (103.0, 105.0):
        run.read(now, past, {"env": "CartPole-v1", "state": "finished"})
    figures = run.details(0)["figures"]
    assert (figures["actors_now"], figures["frames"], figures["state"]) == (1, 20, "finished")
    assert run.answered
    assert run.summary(0, 200.0)["away"] is None
    assert texts(run)[-2:] == ["1 actor left: there are 1", "running, now finished"]
    assert run.sample("seconds", None, None, 10)[1]["frames"] == [10, 20]


def test_the_last_event_of_a_run_that_has_ended_is_its_end() -> None:
    run, past = WatchedRun("folder", "runs/x", 100.0), Past()
    past.read([{"time": 7.0, "seconds": 1.0, "frames": 10, "actors": 2}])
    run.read(101.0, past, {"state": "reached"})
    assert run.details(0)["events"][-1] == Event(7.0, 1.0, "run", "running, now reached")


def test_a_status_is_a_row_as_the_metrics_have_it() -> None:
    found = row(run_status(evaluation=evaluation_status()))
    assert set(FIGURES) <= set(METRICS)
    assert found["evaluation_return"] == 91.5
    assert (found["actors"], found["entropy"]) == (12, 0.612)
    assert set(found) - set(METRICS) - {"actors"} == {
        *run_status().losses,
        *("evaluation_return", "evaluation_low", "evaluation_high"),
    }


def test_tables_of_a_row_are_no_figures() -> None:
    assert known({"raw": {"a": 1.0}, "actor_frames_per_second": {"a": 1.0}, "frames": 1}) == {"frames": 1}


def test_every_field_of_an_actor_that_the_page_wants_is_there() -> None:
    assert set(ACTOR_FIELDS) <= set(PeerStatus.__struct_fields__)
