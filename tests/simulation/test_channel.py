from __future__ import annotations

from random import Random

import pytest

from simulation.channel import HEADER_BYTES, Channel, Line
from simulation.event_queue import EventQueue
from simulation.settings import Link


class Told:
    """A channel, and what has arrived when."""

    def __init__(self, link: Link, *, lines: int = 1, seed: int = 0) -> None:
        self.queue = EventQueue()
        self.channel = Channel(self.queue, link, [Line(link.mbit) for _ in range(lines)], Random(seed))
        self.arrived: list[tuple[int, float]] = []

    def send(self, count: int, size: int = 1000) -> Told:
        for number in range(count):
            self.channel.send(size, lambda number=number: self.arrived.append((number, self.queue.now)))  # type: ignore[misc]
        while self.queue.step():
            pass
        return self

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.arrived]


def test_a_message_takes_the_delay_and_the_time_of_its_bytes() -> None:
    told = Told(Link(delay=0.5, mbit=8.0)).send(2, size=10**6 - HEADER_BYTES)
    assert [time for _, time in told.arrived] == pytest.approx([1.5, 2.5]), "one after the other on the line"


def test_on_a_fair_line_a_short_message_passes_long_ones_which_wait_for_it() -> None:
    unfair, fair = Line(8.0), Line(8.0, fair=True)
    sizes = 10**6, 1000, 10**6
    assert [unfair.take(0.0, size) for size in sizes] == pytest.approx([1.0, 1.001, 2.001])
    assert [fair.take(0.0, size) for size in sizes] == pytest.approx([1.0, 0.001, 2.001])


def test_a_line_without_a_limit_takes_no_time() -> None:
    assert Told(Link(delay=0.5)).send(3).arrived == [(0, 0.5), (1, 0.5), (2, 0.5)]


def test_messages_with_jitter_arrive_in_order() -> None:
    told = Told(Link(delay=0.1, jitter=1.0)).send(50)
    assert told.numbers == list(range(50))
    assert len({time for _, time in told.arrived}) > 1


def test_what_is_lost_comes_later_and_holds_up_what_follows() -> None:
    told = Told(Link(delay=0.1, loss=0.5)).send(50)
    assert told.numbers == list(range(50))
    assert {round(time, 6) for _, time in told.arrived} == {0.1, 0.3}


def test_messages_vanish_come_twice_and_overtake_each_other_when_told_to() -> None:
    assert Told(Link(drop=1.0)).send(5).numbers == []
    assert sorted(Told(Link(delay=0.1, duplicate=1.0)).send(3).numbers) == [0, 0, 1, 1, 2, 2]
    mixed = Told(Link(delay=0.1, jitter=1.0, reorder=1.0)).send(50).numbers
    assert mixed != sorted(mixed) == list(range(50))


def test_the_same_seed_gives_the_same_times() -> None:
    link = Link(delay=0.1, jitter=1.0, loss=0.1, drop=0.1, duplicate=0.1, reorder=0.1)
    assert Told(link, seed=3).send(100).arrived == Told(link, seed=3).send(100).arrived
    assert Told(link, seed=3).send(100).arrived != Told(link, seed=4).send(100).arrived


def test_it_counts_what_is_under_way() -> None:
    told = Told(Link(delay=1.0))
    for _ in range(3):
        told.channel.send(1, lambda: None)
    assert told.channel.under_way == 3
    told.queue.run(1.0)
    assert told.channel.under_way == 0
