from __future__ import annotations

from deploy.backoff import backoff


def test_back_off_doubles_to_half_a_minute() -> None:
    assert [backoff(failures) for failures in (1, 2, 3, 5, 6, 1000)] == [1, 2, 4, 16, 30, 30]
    assert [backoff(failures, 0.5) for failures in (1, 2, 3, 6, 7, 1000, 100_000)] == [0.5, 1, 2, 16, 30, 30, 30]
