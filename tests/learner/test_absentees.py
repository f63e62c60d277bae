from __future__ import annotations

from collections.abc import Sequence

import pytest

from learner.absentees import Absentees, called


def watched(until: int, running: Sequence[str] = ("lab-0", "lab-1"), present: Sequence[str] = ("lab-0",)) -> Absentees:
    """A launcher that reports every two seconds; actors may take 10 x 30 s."""
    one = Absentees(30.0, 10.0)
    for now in range(1000, 1000 + until + 1, 2):
        one.reported(now, running, present)
    return one


def test_one_that_runs_and_does_not_come_hangs_after_its_time() -> None:
    assert watched(298).hanging() == {}
    assert watched(300).hanging() == {"lab-1": 300.0}


def test_who_ends_joins_or_says_hello_begins_anew() -> None:
    for running, present in ((("lab-0",), ("lab-0",)), (("lab-0", "lab-1"), ("lab-0", "lab-1"))):
        one = watched(400)
        one.reported(1402, running, present)
        assert one.hanging() == {}
        one.reported(1404, ("lab-0", "lab-1"), ("lab-0",))
        assert one.hanging() == {}
    one = watched(400)
    one.heard(called("site/lab-1"))
    one.reported(1402, ("lab-0", "lab-1"), ("lab-0",))
    assert one.hanging() == {}


def test_time_in_which_nobody_could_come_does_not_count() -> None:
    one = watched(200)
    one.reported(9000, ("lab-1",), ())
    assert one.hanging() == {}


def test_one_that_knocks_once_a_minute_is_never_taken_to_hang() -> None:
    one = Absentees(1.0, 10.0)
    for now in range(1000):
        one.reported(now, ("lab-0",), ())
        if now % 60 == 0:
            one.heard({"lab-0"})
        assert one.hanging() == {}


@pytest.mark.parametrize(("name", "names"), [("a", {"a"}), ("k/h/a", {"k/h/a", "h/a", "a"})])
def test_called(name: str, names: set[str]) -> None:
    assert called(name) == names
