from __future__ import annotations

import pytest

from actor.failure_rule import FAILING_SECONDS, FAILURES_IN_A_ROW, FailureRule
from common.errors import UnavailableError

ERROR = UnavailableError("it broke")


def test_failures_in_a_row_are_no_reason_to_give_up_before_their_time() -> None:
    rule = FailureRule()
    for _ in range(3 * FAILURES_IN_A_ROW):
        rule.failed(10.0, ERROR)
    rule.failed(10.0 + 0.9 * FAILING_SECONDS, ERROR)
    with pytest.raises(UnavailableError, match="gave up after 32 failures in a row: it broke"):
        rule.failed(10.0 + FAILING_SECONDS, ERROR)


def test_a_long_time_is_no_reason_to_give_up_without_many_failures() -> None:
    rule = FailureRule()
    for number in range(FAILURES_IN_A_ROW - 1):
        rule.failed(100.0 * number, ERROR)
    with pytest.raises(UnavailableError):
        rule.failed(1000.0, ERROR)


def test_a_success_begins_the_count_and_the_time_anew() -> None:
    rule = FailureRule()
    for number in range(FAILURES_IN_A_ROW - 1):
        rule.failed(100.0 * number, ERROR)
    rule.succeeded()
    for _ in range(3 * FAILURES_IN_A_ROW):
        rule.failed(1000.0, ERROR)
