from __future__ import annotations

from actor.outbox import Outbox, Send
from actor.players.action_requests import RESEND_SECONDS, ActionRequests
from actor.rollout_summary import RolloutSummary
from common.rl.episode import Episode
from common.wire.messages import Act, Observe
from tests.helpers.run import welcome_of


class Requests(ActionRequests):
    """With an outbox of their own."""

    def __init__(self, groups: int = 2) -> None:
        self.outbox = Outbox()
        super().__init__(groups, welcome_of(), self.outbox)


def turn(requests: Requests, now: float = 0.0, summary: RolloutSummary | None = None) -> Observe:
    """The next group's turn; its message has been sent."""
    group = requests.ready
    assert group is not None
    requests.ask(group, f"body of {group}".encode(), summary or RolloutSummary())
    (send,) = requests.outbox.due(now)
    assert isinstance(send.message, Observe) and send.body == f"body of {group}".encode()
    return send.message


def test_all_groups_begin_and_then_wait() -> None:
    requests = Requests()
    shown = [turn(requests), turn(requests)]
    assert [(one.group, one.step, one.begins, one.run, one.epoch) for one in shown] == [
        (0, 1, True, "a-run", 1),
        (1, 1, True, "a-run", 1),
    ]
    assert requests.ready is None


def test_groups_step_in_the_order_in_which_their_actions_come() -> None:
    requests = Requests(3)
    for _ in range(3):
        turn(requests)
    assert requests.answered(Act(group=2, step=1))
    assert requests.answered(Act(group=0, step=1))
    assert [turn(requests).group, turn(requests).group] == [2, 0]
    assert requests.ready is None, "the group in the middle still waits"


def test_the_message_has_the_step_s_number_and_summary() -> None:
    requests = Requests(1)
    turn(requests)
    requests.answered(Act(group=0, step=1))
    assert not requests.begins(0)
    message = turn(requests, summary=RolloutSummary(steps=7, emulator_frames=28, episodes=[Episode(1.0, 2, 3.0)]))
    assert (message.step, message.begins, message.steps, message.emulator_frames) == (2, False, 7, 28)
    assert message.episodes == [Episode(1.0, 2, 3.0)]


def test_actions_for_another_step_or_that_came_before_are_not_taken() -> None:
    requests = Requests(1)
    turn(requests)
    assert not requests.answered(Act(group=0, step=2))
    assert not requests.answered(Act(group=5, step=1))
    assert requests.answered(Act(group=0, step=1))
    assert not requests.answered(Act(group=0, step=1)), "they are taken already"


def test_a_request_is_sent_again_until_it_is_answered() -> None:
    requests = Requests()
    first, second = turn(requests, 10.0), turn(requests, 11.0)
    assert requests.outbox.deadline == 10.0 + RESEND_SECONDS
    assert requests.outbox.due(12.0) == [Send(first, b"body of 0")]
    requests.answered(Act(group=0, step=1))
    assert requests.outbox.due(14.0) == [Send(second, b"body of 1")]
    requests.answered(Act(group=1, step=1))
    assert len(requests.outbox) == 0


def test_a_welcome_begins_all_groups_anew_with_higher_numbers() -> None:
    requests = Requests()
    turn(requests)
    turn(requests)
    requests.answered(Act(group=1, step=1))
    requests.welcomed(welcome_of(epoch=2))
    assert not requests.answered(Act(group=0, step=1)), "it was asked of the learner before"
    again = turn(requests), turn(requests)
    assert [(one.group, one.step, one.begins, one.epoch) for one in again] == [(0, 2, True, 2), (1, 2, True, 2)]


def test_a_group_whose_step_failed_begins_after_the_others() -> None:
    requests = Requests()
    turn(requests)
    turn(requests)
    requests.answered(Act(group=0, step=1))
    requests.answered(Act(group=1, step=1))
    requests.failed(0)
    assert requests.ready == 1
    turn(requests)
    message = turn(requests)
    assert (message.group, message.step, message.begins) == (0, 2, True)
