from __future__ import annotations

from typing import get_args

import pytest

from common.wire.messages import (
    AnyMessage,
    Contribution,
    Evaluation,
    Goodbye,
    Halt,
    Inspect,
    Message,
    Pull,
    RefusalCode,
    Save,
    Saved,
    Scale,
    SiteReport,
    Stop,
)
from common.wire.protocol import EVERYONE, PEERS, REFUSALS, RULES, Side, may_send
from tests.helpers.run import gradient_of


def test_every_message_has_a_rule() -> None:
    assert list(RULES) == list(get_args(AnyMessage))


@pytest.mark.parametrize("kind", RULES)
def test_a_message_goes_between_the_learner_and_peers(kind: type[Message]) -> None:
    rule = RULES[kind]
    assert {*rule.senders, *rule.receivers} <= set(EVERYONE)
    assert "learner" in {*rule.senders, *rule.receivers}
    assert all(set(RULES[answer].senders) & set(rule.receivers) for answer in rule.answers)
    assert all(set(RULES[answer].receivers) & set(rule.senders) for answer in rule.answers)


@pytest.mark.parametrize("kind", [kind for kind in RULES if issubclass(kind, Contribution)])
def test_every_contribution_is_answered_and_has_a_body(kind: type[Message]) -> None:
    assert RULES[kind].answers
    assert RULES[kind].body


@pytest.mark.parametrize(
    ("role", "message", "allowed"),
    [
        ("actor", Pull(version=1), True),
        ("launcher", Pull(version=1), False),
        ("evaluator", Pull(version=1), True),
        ("relay", Pull(version=1), True),
        ("relay", SiteReport(actors=1), True),
        ("actor", SiteReport(actors=1), False),
        ("launcher", SiteReport(actors=1), False),
        ("relay", gradient_of(), True),
        ("evaluator", Evaluation(run="r", epoch=1, version=1, episodes=[]), True),
        ("actor", Evaluation(run="r", epoch=1, version=1, episodes=[]), False),
        ("evaluator", Inspect(), False),
        ("observer", Inspect(), True),
        ("actor", Inspect(), False),
        ("actor", Stop(reason="", final=True), False),
        ("learner", Stop(reason="", final=True), True),
        ("observer", Goodbye(reason=""), True),
        ("operator", Goodbye(reason=""), True),
        *(
            (role, order, role == "operator")
            for role in PEERS
            for order in (Halt(), Save(), Scale(minimum=0, maximum=1))
        ),
        ("operator", Inspect(), False),
        ("operator", Saved(version=1), False),
        ("operator", Stop(reason="", final=True), False),
    ],
)
def test_may_send(role: Side, message: Message, allowed: bool) -> None:
    assert may_send(role, message) == allowed


def test_every_refusal_code_has_a_meaning() -> None:
    assert set(REFUSALS) == set(get_args(RefusalCode))
    assert [code for code, refusal in REFUSALS.items() if refusal.error is None] == ["replaced", "unknown"]
