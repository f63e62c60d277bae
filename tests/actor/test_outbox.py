from __future__ import annotations

import math

from actor.outbox import Outbox, Send
from common.wire.messages import Pull

FIRST, SECOND = Send(Pull(version=1), b"first"), Send(Pull(version=2), b"second")


def test_a_message_is_due_at_once_and_again_after_its_own_time_until_it_is_removed() -> None:
    outbox = Outbox()
    assert outbox.deadline == math.inf
    outbox.add(1, FIRST, 10.0)
    assert outbox.due(100.0) == [FIRST]
    outbox.add(2, SECOND, 2.0)
    assert outbox.due(101.0) == [SECOND]
    assert outbox.deadline == 103.0
    assert outbox.due(102.9) == []
    assert outbox.due(110.0) == [FIRST, SECOND]
    assert outbox.deadline == 112.0
    assert outbox.remove(2)
    assert not outbox.remove(2)
    assert outbox.due(119.9) == []
    assert outbox.due(120.0) == [FIRST]


def test_all_messages_are_sent_again_on_demand() -> None:
    outbox = Outbox()
    outbox.add(1, FIRST, 10.0)
    outbox.add(2, SECOND, 10.0)
    outbox.due(100.0)
    assert outbox.due(101.0, all_of_them=True) == [FIRST, SECOND]
    assert outbox.deadline == 111.0
    outbox.clear()
    assert (len(outbox), outbox.due(1000.0)) == (0, [])


def test_what_still_arrives_is_not_sent_again_until_it_has() -> None:
    """The oldest first, as they are on their way."""
    outbox = Outbox()
    first, second = Send(Pull(version=1), bytes(1000)), Send(Pull(version=2), bytes(1000))
    outbox.add(1, first, 10.0)
    outbox.add(2, second, 10.0)
    assert outbox.due(0.0) == [first, second]
    for now in range(1, 26):
        outbox.arrived(float(now), 40)
        assert outbox.due(float(now)) == []
    for now in range(26, 35):
        outbox.arrived(float(now), 40)
        assert outbox.due(float(now)) == []
    outbox.arrived(35.0, 40)
    assert outbox.due(35.0) == [first], "all of it has arrived, and nobody answered"
    for now in range(36, 45):
        outbox.arrived(float(now), 0)
        assert outbox.due(float(now)) == []
    assert outbox.due(45.0) == [first, second], "nothing more arrived"


def test_what_was_not_sent_cannot_arrive() -> None:
    outbox = Outbox()
    outbox.add(1, FIRST, 10.0)
    outbox.due(0.0)
    outbox.unsent(0.0, FIRST)
    outbox.arrived(0.5, 1)
    assert outbox.deadline == 1.0


def test_for_a_second_welcome_nothing_that_is_under_way_is_sent_again_but_for_a_new_connection_all() -> None:
    outbox = Outbox()
    outbox.add(1, FIRST, 10.0)
    outbox.due(0.0)
    assert outbox.due(1.0, all_of_them=True) == [FIRST], "who knows"
    outbox.arrived(2.0, 1)
    assert outbox.due(3.0, all_of_them=True) == []
    outbox.disconnected()
    assert outbox.due(4.0, all_of_them=True) == [FIRST]
    outbox.arrived(5.0, len(b"first"))
    assert outbox.due(6.0, all_of_them=True) == [FIRST], "the learner may have forgotten this actor"
