from __future__ import annotations

import pytest

from common.errors import A3cdError, RefusedError, UnavailableError
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.wire.client import introduce
from common.wire.membership import FIRST_NOTICE_SECONDS, HELLO_SECONDS, UNSENT_SECONDS, Membership
from common.wire.messages import AnyMessage, FleetOrder, Heartbeat, RefusalCode, Refused, Stop, Welcome

BEGIN = 1000.0
WELCOME = Welcome(run="r", epoch=1, heartbeat_seconds=2.0, expiry_seconds=30.0)


@pytest.fixture
def joining() -> Membership:
    return Membership(introduce("launcher", LearnerEndpoint(Address("127.0.0.1", 5555)), "lab"), BEGIN)


@pytest.fixture
def member(joining: Membership) -> Membership:
    joining.tick(BEGIN)
    joining.handle(BEGIN, WELCOME)
    assert joining.tick(BEGIN) == Heartbeat()
    return joining


def test_the_first_hello_is_due_at_once_and_again_each_second(joining: Membership) -> None:
    assert joining.deadline == BEGIN
    assert joining.tick(BEGIN) is joining.hello
    assert joining.tick(BEGIN) is None
    assert joining.deadline == BEGIN + HELLO_SECONDS
    assert joining.tick(joining.deadline - 0.01) is None
    assert joining.tick(joining.deadline) is joining.hello
    assert joining.deadline == BEGIN + 2 * HELLO_SECONDS


def test_a_hello_that_could_not_leave_is_due_again_soon(joining: Membership) -> None:
    joining.tick(BEGIN)
    joining.unsent(BEGIN)
    assert joining.deadline == BEGIN + UNSENT_SECONDS
    assert joining.tick(joining.deadline) is joining.hello


def test_a_hello_that_is_refused_for_now_is_repeated_each_second_and_not_at_once(joining: Membership) -> None:
    joining.tick(BEGIN)
    joining.handle(BEGIN + 0.1, Refused(code="replaced", reason="another came later"))
    assert joining.tick(BEGIN + 0.1) is None
    assert joining.tick(BEGIN + HELLO_SECONDS) is joining.hello


def test_a_heartbeat_that_could_not_leave_is_not_sent_again(member: Membership) -> None:
    member.unsent(BEGIN)
    assert member.member
    assert member.deadline == BEGIN + WELCOME.heartbeat_seconds


def test_a_welcome_makes_a_member_whose_heartbeats_begin_at_once(joining: Membership) -> None:
    joining.tick(BEGIN)
    joining.handle(BEGIN + 0.1, WELCOME)
    assert joining.member
    assert joining.welcome is WELCOME
    assert joining.deadline == BEGIN + 0.1
    assert joining.tick(BEGIN + 0.1, "working", "it hailed") == Heartbeat(state="working", last_error="it hailed")
    assert joining.deadline == BEGIN + 0.1 + WELCOME.heartbeat_seconds
    assert joining.tick(joining.deadline - 0.01) is None
    assert joining.tick(joining.deadline, "waiting") == Heartbeat(state="waiting")


def test_a_late_tick_gives_one_heartbeat_not_all_that_were_missed(member: Membership) -> None:
    assert member.tick(BEGIN + 20) == Heartbeat()
    assert member.tick(BEGIN + 20) is None
    assert member.deadline == BEGIN + 20 + WELCOME.heartbeat_seconds


def test_silence_makes_a_member_join_again(member: Membership) -> None:
    assert member.tick(BEGIN + WELCOME.expiry_seconds) == Heartbeat()
    assert member.member
    late = BEGIN + WELCOME.expiry_seconds + 0.01
    assert member.tick(late) is member.hello
    assert not member.member
    assert member.welcome is WELCOME, "what was prepared for this run may still serve"
    member.handle(late + 1, WELCOME)
    assert member.member
    assert member.tick(late + 1) == Heartbeat()


@pytest.mark.parametrize("message", [Heartbeat(), FleetOrder(actors=1, why=""), Stop(reason="", final=False), WELCOME])
def test_any_message_ends_the_silence(member: Membership, message: AnyMessage) -> None:
    member.handle(BEGIN + 29, message)
    assert isinstance(member.tick(BEGIN + 31), Heartbeat)
    assert member.member


def test_a_learner_that_knows_this_peer_no_more_hears_hello_at_once(member: Membership) -> None:
    member.handle(BEGIN + 1, Refused(code="unknown", reason="say hello first"))
    assert not member.member
    assert member.deadline == BEGIN + 1
    assert member.tick(BEGIN + 1) is member.hello


def test_lost(member: Membership) -> None:
    member.lost(BEGIN + 1)
    assert not member.member
    assert member.tick(BEGIN + 1) is member.hello


@pytest.mark.parametrize(
    ("code", "error", "text", "exit_code"),
    [
        ("protocol", RefusedError, "the learner refused this launcher: no room", 78),
        ("role", RefusedError, "the learner refused this launcher: no room", 78),
        ("codec", RefusedError, "the learner refused this launcher: no room", 78),
        ("quarantined", UnavailableError, "the learner refused this launcher: no room", 75),
    ],
)
@pytest.mark.parametrize("state", ["joining", "member"])
def test_any_other_refusal_is_for_good(
    code: RefusalCode, error: type[A3cdError], text: str, exit_code: int, state: str, request: pytest.FixtureRequest
) -> None:
    membership: Membership = request.getfixturevalue(state)
    with pytest.raises(error, match=text) as caught:
        membership.handle(BEGIN, Refused(code=code, reason="no room"))
    assert type(caught.value) is error
    assert caught.value.exit_code == exit_code


@pytest.mark.parametrize("message", [Heartbeat(), FleetOrder(actors=1, why=""), Stop(reason="", final=True)])
def test_only_a_welcome_makes_a_member(joining: Membership, message: AnyMessage) -> None:
    joining.handle(BEGIN, message)
    assert not joining.member
    assert joining.tick(BEGIN) is joining.hello


def test_notices_come_at_each_doubling(joining: Membership) -> None:
    noticed = []
    for tick in range(200):
        waited = joining.notice(BEGIN + tick * FIRST_NOTICE_SECONDS / 10)
        if waited is not None:
            noticed.append(waited / FIRST_NOTICE_SECONDS)
    assert noticed == pytest.approx([1, 2, 4, 8, 16])


def test_a_member_is_not_waiting(member: Membership) -> None:
    assert member.notice(BEGIN + 100) is None


def test_notices_begin_anew_when_the_learner_is_lost(joining: Membership) -> None:
    assert joining.notice(BEGIN + 10) == 10
    joining.handle(BEGIN + 11, WELCOME)
    joining.lost(BEGIN + 50)
    assert joining.notice(BEGIN + 50 + FIRST_NOTICE_SECONDS - 0.1) is None
    assert joining.notice(BEGIN + 50 + FIRST_NOTICE_SECONDS) == FIRST_NOTICE_SECONDS
