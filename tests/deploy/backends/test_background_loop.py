from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from deploy.backends import background_loop as module
from deploy.backends.background_loop import BackgroundLoop, Report, backoff, close_all
from deploy.backends.base import Ended, Observation, Place, Requests
from deploy.backends.runner import ToolError
from tests.helpers.launching import Actors
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
ALL = frozenset({0, 1})


class Bench:
    """A loop over actors on paper, with two slots; one report is taken and answered at a time."""

    def __init__(self, actors: Actors) -> None:
        self.actors = actors
        self.loop = BackgroundLoop(Place(actors, 2))

    def report(self) -> Report:
        reports: list[Report | None] = []
        until(lambda: reports.append(self.loop.report()) or reports[-1], "a report")
        assert self.loop.report() is None
        assert reports[-1] is not None
        return reports[-1]

    def turn(self, requests: Requests) -> Report:
        """The report after these requests."""
        self.loop.answer(requests)
        self.loop.wake()
        return self.report()


Make = Callable[[Actors], Bench]


@pytest.fixture
def make(nothing_left_behind: None) -> Iterator[Make]:
    made: list[Bench] = []

    def begin(actors: Actors) -> Bench:
        actors.interval = 3600.0
        made.append(Bench(actors))
        return made[-1]

    yield begin
    close_all([bench.loop for bench in made])


def alive(*slots: int) -> Observation:
    return Observation(frozenset(slots))


def test_a_report_shows_the_effect_of_the_requests_before_it(make: Make) -> None:
    bench = make(Actors())
    assert bench.report() == Report(alive())
    assert bench.turn(Requests(start=ALL)) == Report(alive(0, 1))
    bench.actors.ended.append(Ended(1, 7, "dead"))
    assert bench.turn(Requests()) == Report(alive(0), (Ended(1, 7, "dead"),))
    assert bench.turn(Requests()) == Report(alive(0)), "an end is told once"


def test_one_that_died_before_it_was_seen_is_told_too(make: Make) -> None:
    bench = make(Actors())
    bench.report()
    bench.actors.ended.append(Ended(0, 1))
    assert bench.turn(Requests(start=frozenset({0}))) == Report(alive(), (Ended(0, 1),))


def test_a_request_that_failed_is_told_and_is_no_end(make: Make) -> None:
    class Broken(Actors):
        def start(self, slots: Sequence[int]) -> None:
            raise ToolError("no answer")

    bench = make(Broken())
    bench.report()
    assert bench.turn(Requests(start=ALL)) == Report(alive(), problem="no answer", undone=True)
    assert bench.turn(Requests()) == Report(alive())


def test_what_cannot_be_observed_ends_nothing(make: Make) -> None:
    bench = make(Actors())
    bench.report()
    bench.turn(Requests(start=ALL))
    bench.actors.problem = "no route"
    assert bench.turn(Requests()) == Report(None, problem="no route")
    bench.actors.problem = ""
    bench.actors.ended.append(Ended(0, 1))
    assert bench.turn(Requests()) == Report(alive(1), (Ended(0, 1),))


def test_failures_make_the_pauses_longer(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []
    monkeypatch.setattr(module, "backoff", lambda failures: pauses.append(failures) or 0.0)
    actors = Actors()
    actors.problem = "no route"
    bench = make(actors)
    for _ in range(3):
        bench.report()
        bench.loop.answer(Requests())
    bench.report()
    assert pauses == [1, 2, 3]


def test_actors_beyond_the_slots_are_stopped(make: Make) -> None:
    actors = Actors()
    actors.alive = {0, 5}
    assert make(actors).report() == Report(alive(0))
    assert actors.calls == ["stop 5"]


def test_the_last_requests_are_carried_out_and_nothing_is_observed_after_them(make: Make) -> None:
    bench = make(Actors())
    bench.report()
    bench.loop.answer(Requests(start=ALL))
    close_all([bench.loop])
    assert bench.actors.calls == ["start 0", "start 1", "close"]


def test_a_backend_that_hangs_is_closed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.0)

    class Hanging(Actors):
        def __init__(self) -> None:
            super().__init__()
            self.closed = threading.Event()

        def observe(self) -> Observation:
            assert self.closed.wait(30)
            return Observation()

        def close(self) -> None:
            self.closed.set()

    close_all([make(Hanging()).loop])


def test_actors_beyond_the_slots_that_cannot_be_stopped_keep_nothing_else_from_being_seen(make: Make) -> None:
    class Stubborn(Actors):
        def stop(self, slots: Sequence[int], kill: bool = False) -> None:
            raise ToolError("systemctl: Access denied")

    actors = Stubborn()
    actors.alive = {0, 5}
    assert make(actors).report() == Report(alive(0), problem="systemctl: Access denied")


def test_an_error_of_our_own_is_reported_and_logged_once_and_the_loop_goes_on(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(Actors):
        wrong = True

        def observe(self) -> Observation:
            if self.wrong:
                raise ZeroDivisionError("by zero")
            return super().observe()

    bench = make(Wrong())
    problem = "Wrong failed: ZeroDivisionError: by zero"
    assert bench.report() == Report(None, problem=problem)
    assert bench.turn(Requests()) == Report(None, problem=problem)
    assert [record.getMessage() for record in caplog.records] == [problem]
    assert "in observe" in caplog.text, "the traceback"
    bench.actors.wrong = False  # type: ignore[attr-defined]
    assert bench.turn(Requests(start=ALL)) == Report(alive(0, 1))


def test_an_end_of_which_nothing_can_be_said_is_an_end_all_the_same(make: Make) -> None:
    class Forgetful(Actors):
        def exit_status(self, slot: int) -> Ended:
            raise KeyError(slot)

    bench = make(Forgetful())
    bench.report()
    bench.turn(Requests(start=ALL))
    bench.actors.ended.append(Ended(1, 0))
    problem = "Forgetful failed: KeyError: 1"
    assert bench.turn(Requests()) == Report(alive(0), (Ended(1, 1, problem),))


def test_back_off_doubles_to_half_a_minute() -> None:
    assert [backoff(failures) for failures in (1, 2, 3, 5, 6, 1000)] == [1, 2, 4, 16, 30, 30]
    assert [backoff(failures, 0.5) for failures in (1, 2, 3, 6, 7, 1000, 100_000)] == [0.5, 1, 2, 16, 30, 30, 30]
