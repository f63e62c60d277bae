from __future__ import annotations

import itertools

import pytest

from common.errors import RefusedError, UnavailableError
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


def pauses(membership: Membership, hellos: int) -> list[float]:
    """Between this many hellos that nobody answers."""
    moments = []
    for _ in range(hellos):
        moments.append(membership.deadline)
        assert membership.tick(membership.deadline - 0.01) is None
        assert membership.tick(membership.deadline) is membership.hello
        assert membership.tick(moments[-1]) is None
    return [late - early for early, late in itertools.pairwise(moments)]


def test_the_first_hello_is_due_at_once_and_the_others_ever_later(joining: Membership) -> None:
    assert joining.deadline == BEGIN
    assert pauses(joining, 7) == [1, 2, 4, 8, 8, 8]


def test_one_that_is_refused_says_hello_ever_more_slowly_and_for_ever(joining: Membership) -> None:
    due = []
    for _ in range(12):
        due.append(joining.deadline)
        assert joining.tick(joining.deadline) is joining.hello
        joining.handle(due[-1], Refused(code="protocol", reason="no room"))
    assert [late - early for early, late in itertools.pairwise(due)] == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]


def test_one_that_finds_that_it_cannot_take_part_is_slow_too(joining: Membership) -> None:
    """It is welcomed each time."""
    due, noticed = [], []
    for _ in range(8):
        due.append(now := joining.deadline)
        assert joining.tick(now) is joining.hello
        joining.handle(now, WELCOME)
        joining.refused(now, "another network")
        noticed.append(joining.notice(now) is not None)
    assert [late - early for early, late in itertools.pairwise(due)] == [1, 2, 4, 8, 16, 32, 60]
    assert noticed[:3] == [True, False, False], "said once, and then rarely"


def test_a_member_that_lasted_begins_anew(joining: Membership) -> None:
    joining.tick(BEGIN)
    joining.handle(BEGIN, Refused(code="name", reason="no room"))
    joining.tick(BEGIN + 1)
    joining.handle(BEGIN + 1, WELCOME)
    assert joining.obstacle
    assert isinstance(joining.tick(BEGIN + 1), Heartbeat)
    assert not joining.obstacle
    joining.lost(BEGIN + 9)
    assert pauses(joining, 3) == [1, 2]


def test_a_new_connection_is_spoken_on_at_once(joining: Membership) -> None:
    joining.tick(BEGIN)
    joining.handle(BEGIN, Refused(code="protocol", reason="being upgraded"))
    joining.tick(BEGIN + 1)
    joining.connected(BEGIN + 1.5)
    assert joining.tick(BEGIN + 1.5) is joining.hello


def test_a_member_joins_again_on_a_new_connection(member: Membership) -> None:
    member.connected(BEGIN + 0.5)
    assert member.tick(BEGIN + 0.5) is member.hello
    assert member.welcome is WELCOME


def test_waiting_has_an_end_if_it_is_given_one(joining: Membership) -> None:
    joining.give_up(BEGIN + 10, 0.0)
    joining.give_up(BEGIN + 10, 10.0)
    with pytest.raises(UnavailableError, match="no learner let this launcher in for 10 s: no answer"):
        joining.give_up(BEGIN + 11, 10.0)
    joining.handle(BEGIN + 11, Refused(code="protocol", reason="another a3cd"))
    with pytest.raises(UnavailableError, match="for 10 s: the learner refused this launcher: another a3cd"):
        joining.give_up(BEGIN + 12, 10.0)
    joining.handle(BEGIN + 12, WELCOME)
    joining.give_up(BEGIN + 100, 10.0)
    joining.lost(BEGIN + 100)
    joining.give_up(BEGIN + 105, 10.0)


def test_a_hello_that_could_not_leave_is_due_again_soon(joining: Membership) -> None:
    joining.tick(BEGIN)
    joining.unsent(BEGIN)
    assert joining.deadline == BEGIN + UNSENT_SECONDS
    assert joining.tick(joining.deadline) is joining.hello
    for _ in range(10):
        joining.unsent(BEGIN)
        joining.tick(joining.deadline)
        joining.unsent(BEGIN)
    assert joining.deadline == BEGIN + HELLO_SECONDS, "a peer without a learner does not wake for nothing"
    joining.connected(BEGIN + 20)
    assert pauses(joining, 3) == [1, 2]


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


REASON = "the learner refused this launcher: no room"


@pytest.mark.parametrize("code", ["protocol", "role", "codec", "name"])
@pytest.mark.parametrize("state", ["joining", "member"])
def test_a_daemon_that_is_refused_waits_and_says_why(
    code: RefusalCode, state: str, request: pytest.FixtureRequest
) -> None:
    membership: Membership = request.getfixturevalue(state)
    membership.handle(BEGIN, Refused(code=code, reason="no room"))
    assert not membership.member
    assert membership.obstacle == REASON
    assert membership.notice(BEGIN) is not None, "it is said at once"
    assert membership.notice(BEGIN + 1) is None
    assert membership.tick(BEGIN + HELLO_SECONDS) is membership.hello
    membership.handle(BEGIN + 2, WELCOME)
    assert membership.member


@pytest.mark.parametrize("code", ["protocol", "role", "codec", "name"])
def test_a_command_that_is_refused_ends(code: RefusalCode) -> None:
    hello = introduce("observer", LearnerEndpoint(Address("127.0.0.1", 5555)), "lab")
    with pytest.raises(RefusedError, match="the learner refused this observer: no room") as caught:
        Membership(hello, BEGIN, patient=False).handle(BEGIN, Refused(code=code, reason="no room"))
    assert caught.value.exit_code == 78


def test_a_quarantine_ends_the_process_that_was_in_and_its_successor_waits(joining: Membership) -> None:
    """Else an actor that is started again would end at once, again and again, like one that cannot run here."""
    refused = Refused(code="quarantined", reason="no room")
    again = Membership(joining.hello, BEGIN, patient=True)
    for now in (BEGIN, BEGIN + 100, BEGIN + 200):
        assert again.tick(now) is again.hello
        again.handle(now, refused)
        assert (again.member, again.obstacle) == (False, REASON)
    again.handle(BEGIN + 300, WELCOME)
    assert again.member
    with pytest.raises(UnavailableError, match=REASON) as caught:
        again.handle(BEGIN + 301, refused)
    assert caught.value.exit_code == 75


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


def test_bytes_under_way_are_a_sign_of_life(member: Membership) -> None:
    late = BEGIN + 10 * WELCOME.expiry_seconds
    member.alive(late - 1.0)
    assert isinstance(member.tick(late), Heartbeat)
    assert member.member
    assert member.tick(late + WELCOME.expiry_seconds) == member.hello
    member.alive(late + WELCOME.expiry_seconds)
    assert not member.member, "it joins again by a welcome alone"


def test_it_rests_just_while_a_tick_has_nothing_to_do(member: Membership) -> None:
    assert member.rests(member.deadline - 0.01)
    assert not member.rests(member.deadline), "a heartbeat is due"
    member.tick(BEGIN + WELCOME.expiry_seconds)
    assert member.rests(BEGIN + WELCOME.expiry_seconds)
    assert not member.rests(BEGIN + WELCOME.expiry_seconds + 0.01), "the learner is silent"
    member.tick(BEGIN + WELCOME.expiry_seconds + 0.01)
    assert not member.rests(BEGIN + WELCOME.expiry_seconds + 0.01), "it joins"
