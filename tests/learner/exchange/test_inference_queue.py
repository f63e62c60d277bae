from __future__ import annotations

import math
from typing import Any, cast

import pytest

from learner.exchange.inference_queue import Group, InferenceQueue

A, B = (b"a", 0), (b"b", 1)


def group() -> Group:
    return Group(cast(Any, None), step=1, since=0.0)


def test_the_oldest_is_waited_for_and_nobody_is_asked_for_twice() -> None:
    queue = InferenceQueue((2, 3), batch=100, wait_seconds=1.0)
    assert queue.deadline == math.inf
    first, second = group(), group()
    queue.enqueue(A, first, 1, 10.0)
    queue.enqueue(B, second, 1, 10.5)
    assert (queue.deadline, queue.is_full) == (11.0, True)
    assert list(queue.dequeue_all()) == [A, B]
    assert queue.deadline == math.inf and not queue.is_full
    first.answer = b"actions"
    queue.enqueue(A, first, 2, 12.0)
    assert (first.step, first.since, first.answer) == (2, 12.0, None)
    assert not queue.is_full and queue.get(A) is first
    queue.left(b"a")
    assert queue.get(A) is None and not queue.dequeue_all()


@pytest.mark.parametrize(("batch", "full"), [(3, True), (4, False)])
def test_a_batch_is_counted_in_environments_and_a_group_once(batch: int, full: bool) -> None:
    queue = InferenceQueue((2, 3), batch=batch, wait_seconds=1.0)
    queue.enqueue(A, group(), 1, 0.0)
    queue.dequeue_all()
    queue.enqueue(B, group(), 1, 1.0)
    queue.enqueue(B, group(), 2, 2.0)
    assert queue.is_full is full
