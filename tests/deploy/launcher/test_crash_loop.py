from __future__ import annotations

import pytest

from tests.helpers.bench import Bench


@pytest.mark.parametrize("exit_code", [2, 78])
def test_some_exit_codes_are_hopeless_at_once(exit_code: int) -> None:
    bench = Bench()
    bench.order(2)
    bench.now += 0.5
    assert bench.ended(1, exit_code, "one\nno environment 'x'\n")
    assert bench.after(100) == []
    report = bench.report
    assert (report.gave_up, report.exit_code, report.running, report.starting) == (True, exit_code, 1, 0)
    assert report.why == f"the actor in slot 1 ended with exit code {exit_code} after 0.5 s: no environment 'x'"
    assert bench.order(4) == []
    bench.ended(0, 1)
    assert bench.after(100) == []
    assert bench.report.exit_code == exit_code


def test_five_failures_in_a_row_are_hopeless() -> None:
    bench = Bench()
    bench.order(2)
    for back_off in (0.5, 1.0):
        bench.ended(0)
        bench.ended(1)
        assert bench.after(back_off) == ["start 0", "start 1"]
    bench.now += 59.9
    assert not bench.core.gave_up
    bench.ended(0, 137)
    assert bench.after(100) == []
    report = bench.report
    assert (report.gave_up, report.exit_code, report.failed, report.running) == (True, 137, 5, 1)
    assert report.why == (
        "5 failures in a row; the actor in slot 0 ended with exit code 137 after 59.9 s: it said nothing"
    )


def test_one_that_lives_is_reason_to_go_on() -> None:
    bench = Bench()
    bench.order(2)
    bench.now += 60.0
    for _ in range(10):
        bench.ended(0)
        assert bench.after(30) == ["start 0"]
    assert not bench.core.gave_up
    assert bench.report.failed == 10


def test_why_is_bounded() -> None:
    bench = Bench()
    bench.order(1)
    bench.ended(0, 78, "x" * 100_000)
    assert 1000 < len(bench.report.why) < 1200


def test_another_epoch_is_reason_to_try_again() -> None:
    bench = Bench(slots=1)
    bench.welcome(epoch=1)
    bench.order(1)
    bench.ended(0, 78)
    assert bench.after(100) == []
    assert bench.welcome(epoch=1) == []
    assert bench.core.gave_up
    assert bench.welcome(epoch=2) == ["start 0"]
    assert not bench.report.gave_up


def test_a_bad_host_is_no_reason_to_give_up_the_others() -> None:
    bench = Bench(slots=2, hosts=["h2", "h3"])
    assert bench.order(2) == ["start 0", "start 0 on 1"]
    bench.now += 0.5
    bench.ended(0, 78, "no environment 'x'")
    assert bench.tick() == ["start 1 on 1"], "in place of the one on h2"
    report = bench.report
    assert (report.gave_up, report.exit_code, report.slots, report.running) == (False, 0, 2, 2)
    assert report.why == "h2: the actor in slot 0 ended with exit code 78 after 0.5 s: no environment 'x'"
    bench.ended(0, 2, "usage", place=1)
    assert bench.after(100) == []
    report = bench.report
    assert (report.gave_up, report.exit_code) == (True, 78)
    assert "; h3: the actor in slot 0 ended with exit code 2" in report.why


def test_an_actor_that_lives_on_one_host_proves_nothing_of_another() -> None:
    bench = Bench(slots=1, hosts=["h2", "h3"])
    bench.order(2)
    bench.now += 60
    for _ in range(5):
        bench.ended(0, 127, "a3cd: not found")
        bench.after(30)
    assert "h2: 5 failures" not in bench.report.why, "the first had lived a minute"
    bench.ended(0, 127, "a3cd: not found")
    assert bench.report.why.startswith("h2: 5 failures in a row; the actor in slot 0 ended with exit code 127")
    assert not bench.core.gave_up
