from __future__ import annotations

import math

from common.host.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(1.0, 6.0)
    assert [backoff.next() for _ in range(5)] == [1.0, 2.0, 4.0, 6.0, 6.0]
    backoff.reset()
    assert [backoff.next() for _ in range(2)] == [1.0, 2.0]


def test_any_number_of_tries_is_a_pause() -> None:
    backoff = Backoff(2.0, math.inf)
    assert [backoff.next() for _ in range(5000)][-1] == math.inf
