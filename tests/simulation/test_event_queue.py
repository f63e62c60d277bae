from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from simulation.event_queue import EventQueue


def test_events_happen_in_the_order_of_their_times_and_then_of_their_planning() -> None:
    queue = EventQueue()
    seen: list[tuple[str, float]] = []
    for name, time in (("c", 2.0), ("a", 1.0), ("d", 2.0), ("b", 1.0)):
        queue.at(time, lambda name=name: seen.append((name, queue.now)))  # type: ignore[misc]
    while queue.step():
        pass
    assert seen == [("a", 1.0), ("b", 1.0), ("c", 2.0), ("d", 2.0)]
    assert queue.happened == 4


def test_an_event_may_plan_others_and_one_of_the_past_happens_now() -> None:
    queue = EventQueue(now=5.0)
    seen: list[float] = []
    queue.at(6.0, lambda: queue.at(1.0, lambda: seen.append(queue.now)))
    queue.run(10.0)
    assert (seen, queue.now) == ([6.0], 10.0)


def test_what_is_cancelled_does_not_happen() -> None:
    queue = EventQueue()
    event = queue.at(1.0, lambda: 1 / 0)
    event.cancel()
    assert queue.deadline == math.inf
    assert not queue.step()
    assert queue.now == 0.0


def test_it_stops_before_what_is_later() -> None:
    queue = EventQueue()
    seen: list[float] = []
    for time in (1.0, 2.0, 3.0):
        queue.at(time, lambda: seen.append(queue.now))
    queue.run(2.0)
    assert seen == [1.0, 2.0]
    assert queue.deadline == 3.0


@given(st.lists(st.floats(0, 10), max_size=30))
def test_time_never_goes_back(times: list[float]) -> None:
    queue = EventQueue()
    seen: list[float] = []
    for time in times:
        queue.at(time, lambda: seen.append(queue.now))
    while queue.step():
        pass
    assert seen == sorted(times)
