import pytest

from learner.scaling.meter import ENOUGH, MARKS, MOST_MARKS, SETTLING, FleetMeter, Totals, Window


class Playing:
    """Each second every actor sends `messages` of `rollouts` each, which the learner takes in as one step each."""

    def __init__(self, actors: int, *, messages: int = 10, rollouts: int = 1, lag: int = 2) -> None:
        self.meter = FleetMeter(1.0)
        self.messages, self.rollouts, self.lag = messages, rollouts, lag
        self.totals = Totals(0.0, 0.0, 0, 0)
        self.actors = 0
        for _ in range(actors):
            self.arrive()

    def arrive(self) -> None:
        self.actors += 1
        self.meter.arrived()

    def second(self) -> Window:
        for _ in range(self.messages * self.actors):
            now, worked, frames, steps, *_ = self.totals
            part = 1.0 / (self.messages * self.actors)
            self.totals = Totals(now + part, worked + 0.5 * part, frames + 20, steps + 1)
            if self.meter.received(self.lag, self.rollouts):
                self.meter.mark(self.totals)
        return self.meter.look(self.totals, self.actors)


def test_all_figures_are_of_the_same_seconds() -> None:
    playing = Playing(4, rollouts=3)
    assert playing.second() == Window(), "too short"
    for _ in range(3):
        window = playing.second()
    assert window.seconds == pytest.approx(4.0 - SETTLING / 10)
    assert (window.busy, window.lag_mean) == (pytest.approx(0.5), 2.0)
    assert (window.rollouts_per_second, window.steps_per_second) == (pytest.approx(120.0), pytest.approx(40.0))
    assert window.frames_per_second == pytest.approx((800.0,) * 4)


def test_an_actor_that_comes_or_goes_begins_the_measurement_anew() -> None:
    playing = Playing(4, lag=9)
    for _ in range(5):
        before = playing.second()
    assert before.lag_mean == 9.0
    playing.arrive()
    playing.lag = 1
    assert playing.second() == Window()
    after = playing.second()
    assert (after.lag_mean, after.steps_per_second) == (1.0, pytest.approx(50.0))
    playing.actors = 3
    playing.lag = 5
    assert playing.second() == Window(), "one has left"
    playing.second()
    playing.second()
    assert playing.second().lag_mean == 5.0


def test_what_was_under_way_at_a_change_is_let_pass() -> None:
    playing = Playing(2, messages=1, lag=40)
    for _ in range(SETTLING):
        assert playing.second() == Window()
    playing.lag = 3
    windows = [playing.second() for _ in range(3)]
    assert windows[-1].lag_mean == 3.0


def test_old_looks_are_forgotten_and_few_messages_are_kept_longer() -> None:
    playing = Playing(2)
    for _ in range(3 * MARKS):
        window = playing.second()
    assert window.seconds == pytest.approx(MARKS)
    assert len(window.frames_per_second) == MARKS
    assert ENOUGH * 2 < MARKS * 2


def test_silence_gives_no_figures_and_takes_no_memory() -> None:
    playing = Playing(1)
    playing.second()
    playing.messages = 0
    for second in range(2 * MOST_MARKS):
        playing.totals = playing.totals._replace(now=10.0 + second)
        window = playing.second()
    assert window == Window()
    assert len(playing.meter._marks) <= MOST_MARKS + 2
