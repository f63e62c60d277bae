from __future__ import annotations

import math

from common.wire.messages import Pull
from learner.connections import Progress
from learner.parameters.pulls import UNDER_WAY_SECONDS, PullQueue, held

MEGABYTE = 10**6


def queue() -> PullQueue:
    """A megabyte a second."""
    return PullQueue(8.0)


def test_what_a_peer_has() -> None:
    assert held(Pull(version=7)) == 7
    assert held(Pull(version=7, whole=True)) == -1


def test_pulls_are_answered_in_their_order_as_the_budget_allows() -> None:
    pulls = queue()
    assert pulls.next(0.0) is None
    assert pulls.deadline == math.inf
    for name in (b"a", b"b", b"c", b"a"):
        pulls.ask(0.0, name, Pull(version=1))
    assert len(pulls) == 3, "one of each"
    answered = []
    now = 0.0
    while pulls.deadline < math.inf:
        now = max(now, pulls.deadline)
        found = pulls.next(now)
        assert found is not None
        answered.append((found[0], now))
        pulls.spent(now, MEGABYTE)
        assert pulls.next(now + 0.99) is None
    assert answered == [(b"a", 0.0), (b"b", 1.0), (b"c", 2.0)]


def test_half_the_budget_is_half_as_fast() -> None:
    pulls = queue()
    pulls.ask(0.0, b"a", Pull(version=1))
    pulls.spent(0.0, MEGABYTE, share=0.5)
    assert pulls.deadline == 2.0


def test_what_is_under_way_is_not_sent_again() -> None:
    pulls = queue()
    pulls.sent(10.0, b"a", 5, MEGABYTE)
    for pull in (Pull(version=4), Pull(version=0, whole=True)):
        pulls.ask(11.0, b"a", pull)
        assert len(pulls) == 0
    pulls.ask(11.0, b"a", Pull(version=5))
    assert pulls.next(11.0) == (b"a", Pull(version=5)), "it has arrived"
    pulls.ask(11.0, b"b", Pull(version=4))
    assert pulls.next(11.0) == (b"b", Pull(version=4)), "another peer"
    pulls.ask(10.0 + UNDER_WAY_SECONDS, b"a", Pull(version=4))
    assert pulls.next(50.0) == (b"a", Pull(version=4)), "too long ago"


def test_while_bytes_arrive_they_are_under_way_however_long_it_takes() -> None:
    pulls = queue()
    pulls.progress(b"a", Progress(9.0, 1000))
    pulls.sent(10.0, b"a", 5, MEGABYTE)
    again = Pull(version=0, whole=True)
    now = 10.0
    for second in range(0, 200, 20):
        now = 10.0 + second
        pulls.progress(b"a", Progress(now, 1000 + 5000 * second))
        pulls.ask(now + 1.0, b"a", again)
        assert len(pulls) == 0
    for later in range(1, 100):  # heartbeats
        pulls.progress(b"a", Progress(now + later, 1000 + MEGABYTE + later))
    pulls.ask(now + UNDER_WAY_SECONDS, b"a", again)
    assert len(pulls) == 1, "all has arrived, and it asks again"


def test_what_comes_from_a_peer_brings_nothing_to_it() -> None:
    pulls = queue()
    pulls.sent(10.0, b"a", 5, MEGABYTE)
    for now in range(10, 60):
        pulls.progress(b"a", Progress(float(now), 0))
    pulls.ask(60.0, b"a", Pull(version=0, whole=True))
    assert len(pulls) == 1


def test_nothing_is_kept_of_who_left() -> None:
    pulls = queue()
    pulls.sent(0.0, b"a", 5, MEGABYTE)
    pulls.ask(0.0, b"a", Pull(version=5))
    pulls.progress(b"a", Progress(1.0, 100))
    pulls.left(b"a")
    assert (len(pulls), pulls._sent, pulls._acknowledged) == (0, {}, {})
    pulls.ask(1.0, b"a", Pull(version=0, whole=True))
    assert len(pulls) == 1
