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
