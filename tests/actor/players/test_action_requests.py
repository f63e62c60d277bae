from __future__ import annotations

import math

from actor.players.action_requests import RESEND_SECONDS, Asking, Tally
from common.wire.messages import Act, Observe
from tests.helpers.run import welcome_of


def asking_of(groups: int = 2) -> Asking:
    asking = Asking(groups)
    asking.welcomed(welcome_of())
    return asking


def turn(asking: Asking, now: float = 0.0) -> Observe:
    group = asking.ready
    assert group is not None
    return asking.ask(now, group, f"body of {group}".encode(), Tally(steps=1))


def test_nothing_is_asked_before_a_welcome() -> None:
    assert Asking(2).ready is None


def test_all_groups_begin_and_then_wait() -> None:
    asking = asking_of()
    first, second = turn(asking), turn(asking)
    assert [(one.group, one.step, one.begins, one.run, one.epoch) for one in (first, second)] == [
        (0, 1, True, "a-run", 1),
        (1, 1, True, "a-run", 1),
    ]
    assert asking.ready is None


def test_groups_step_in_the_order_in_which_their_actions_come() -> None:
    asking = asking_of(3)
    for _ in range(3):
        turn(asking)
    assert asking.answered(Act(group=2, step=1))
    assert asking.answered(Act(group=0, step=1))
    assert [(turn(asking).group), (turn(asking).group)] == [2, 0]
    assert asking.ready is None, "the group in the middle still waits"


def test_a_step_bears_its_number_and_what_it_gave() -> None:
    asking = asking_of(1)
    turn(asking)
    asking.answered(Act(group=0, step=1))
    assert not asking.begins(0)
    message = asking.ask(0.0, 0, b"", Tally(7, 28, [(1.0, 2, 3.0)]))
    assert (message.step, message.begins, message.steps, message.emulator_frames) == (2, False, 7, 28)
    assert message.episodes == [(1.0, 2, 3.0)]


def test_actions_for_another_step_or_that_came_before_are_not_taken() -> None:
    asking = asking_of(1)
    turn(asking)
    assert not asking.answered(Act(group=0, step=2))
    assert not asking.answered(Act(group=5, step=1))
    assert asking.answered(Act(group=0, step=1))
    assert not asking.answered(Act(group=0, step=1)), "they are taken already"


def test_what_nobody_answers_is_sent_again_until_it_is_answered() -> None:
    asking = asking_of()
    first, second = turn(asking, 10.0), turn(asking, 11.0)
    assert asking.deadline == 10.0 + RESEND_SECONDS
    assert asking.due(11.9) == []
    assert asking.due(12.0) == [(first, b"body of 0")]
    assert asking.due(12.5) == []
    asking.answered(Act(group=0, step=1))
    assert asking.due(14.0) == [(second, b"body of 1")]
    asking.answered(Act(group=1, step=1))
    assert asking.deadline == math.inf


def test_a_welcome_begins_all_groups_anew_with_higher_numbers() -> None:
    asking = asking_of()
    turn(asking)
    turn(asking)
    asking.answered(Act(group=1, step=1))
    asking.welcomed(welcome_of(epoch=2))
    assert not asking.answered(Act(group=0, step=1)), "it was asked of the learner before"
    again = turn(asking), turn(asking)
    assert [(one.group, one.step, one.begins, one.epoch) for one in again] == [(0, 2, True, 2), (1, 2, True, 2)]


def test_a_group_whose_step_failed_begins_after_the_others() -> None:
    asking = asking_of()
    turn(asking)
    turn(asking)
    asking.answered(Act(group=0, step=1))
    asking.answered(Act(group=1, step=1))
    asking.failed(0)
    assert asking.ready == 1
    turn(asking)
    message = turn(asking)
    assert (message.group, message.step, message.begins) == (0, 2, True)
