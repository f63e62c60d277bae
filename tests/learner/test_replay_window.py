"""Sequence numbers in every order, against a set of those seen."""

from hypothesis import given
from hypothesis import strategies as st

from learner.replay_window import SEQUENCE_WINDOW, ReplayWindow

ONE = ("box-0", "incarnation")


def test_numbers_may_come_out_of_order_but_only_once() -> None:
    window = ReplayWindow()
    order = [1, 2, 5, 3, 3, 5, 4, 1, 6, 6, 0]
    assert [window.is_duplicate(ONE, number) for number in order] == [
        *[False, False, False, False, True, True, False, True, False, True, True]
    ]


@given(st.lists(st.integers(1, 40), max_size=60))
def test_within_the_window_a_number_is_a_duplicate_exactly_if_it_was_seen(numbers: list[int]) -> None:
    window, seen = ReplayWindow(), set()
    for number in numbers:
        assert window.is_duplicate(ONE, number) == (number in seen)
        seen.add(number)


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 3000), max_size=30))
def test_no_number_is_taken_twice_whatever_else_came(numbers: list[int]) -> None:
    window, taken = ReplayWindow(), set()
    for number in numbers:
        if not window.is_duplicate(ONE, number):
            assert number not in taken
            taken.add(number)


def test_what_is_below_the_window_is_taken_for_seen() -> None:
    window = ReplayWindow()
    window.is_duplicate(ONE, 10 * SEQUENCE_WINDOW)
    assert window.is_duplicate(ONE, 9 * SEQUENCE_WINDOW)
    assert not window.is_duplicate(ONE, 9 * SEQUENCE_WINDOW + 1)
