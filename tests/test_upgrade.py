"""Learner and actor of different versions: each says so, and the one that was refused tries again, ever more slowly."""

from __future__ import annotations

from typing import Any

import pytest

from actor.core import ActorCore
from actor.effects import Prepare
from common.errors import UnavailableError, WireError
from common.host.versions import own_version
from common.wire.frames import pack, unpack
from common.wire.messages import PROTOCOL, Goodbye, Refused, Welcome
from tests.helpers.noting_player import BODY, member, messages
from tests.helpers.run import hello_of, learner_of, sent, welcome_of


@pytest.mark.parametrize("protocol", [PROTOCOL - 1, PROTOCOL + 1])
def test_a_hello_of_another_protocol_is_refused_with_both_numbers(protocol: int) -> None:
    core, _ = learner_of()
    with pytest.raises(WireError) as caught:
        unpack(pack(hello_of("x", protocol=protocol)), by_learner=True)
    (refusal,) = sent(core.malformed(b"x", caught.value), Refused)
    assert refusal.code == "protocol"
    assert f"protocol {protocol} is not {PROTOCOL}, the one spoken here by a3cd {own_version()}" in refusal.reason
    actor = ActorCore(hello_of("x"), 0.0)
    actor.tick(0.0)
    assert actor.handle(0.1, refusal, None) == []
    assert refusal.reason in actor.membership.obstacle


def test_the_welcome_says_which_a3cd_the_learner_is() -> None:
    core, _ = learner_of()
    (welcome,) = sent(core.handle(0.0, b"x", hello_of("x"), None), Welcome)
    assert welcome.a3cd == core.run.spec.versions.get("a3cd", "")


def test_one_that_is_refused_waits_and_one_that_is_quarantined_ends() -> None:
    core = ActorCore(hello_of("x"), 0.0)
    assert core.handle(0.0, Refused(code="protocol", reason="protocol 1 is not 2"), None) == []
    assert (core.state, core.membership.obstacle) == ("joining", "the learner refused this actor: protocol 1 is not 2")
    with pytest.raises(UnavailableError, match="set aside"):
        member().handle(0.0, Refused(code="quarantined", reason="set aside"), None)


def newer(**changed: Any) -> Welcome:
    """Of a learner with a setting that no actor here knows."""
    return welcome_of(settings={"seed": 0, "colour": "red"}, a3cd="9.1", **changed)


def test_settings_of_another_version_are_refused_with_both_versions_and_asked_for_again() -> None:
    core = ActorCore(hello_of("x"), 0.0)
    core.tick(0.0)
    (told,) = messages(core.handle(0.1, newer(), BODY))
    assert isinstance(told, Goodbye)
    for words in ("(a3cd 9.1)", f"(a3cd {own_version()})", "unknown field `colour`", "install the same a3cd"):
        assert words in told.reason
    assert (core.state, core.membership.obstacle) == ("joining", told.reason)
    assert messages(core.tick(1.1)) == [core.membership.hello]
    core.handle(1.2, newer(), BODY)
    assert messages(core.tick(2.5)) == [], "ever more slowly"
    upgraded = core.handle(3.0, welcome_of(settings={}), BODY)
    assert isinstance(upgraded[0], Prepare)
    core.tick(3.0)
    assert core.membership.obstacle == ""


def test_a_player_that_does_not_fit_is_made_anew_with_the_next_welcome() -> None:
    core = member()
    other = welcome_of(settings={}, model="another", epoch=2)
    assert any(isinstance(effect, Prepare) for effect in core.handle(1.0, other, BODY))
    (told,) = messages(core.refuse(1.0, "another network"))
    assert told == Goodbye(reason="another network")
    assert any(isinstance(effect, Prepare) for effect in core.handle(3.0, other, BODY))
