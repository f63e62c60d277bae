from __future__ import annotations

from actor.refusals import not_understood, other_network
from common.host.versions import own_version
from tests.helpers.run import settings_of, welcome_of


def test_settings_that_are_not_known_here_are_named_with_both_versions() -> None:
    why = not_understood(welcome_of(a3cd="9.1"), ValueError("unknown field `colour`"))
    for words in ("(a3cd 9.1)", f"(a3cd {own_version()})", "unknown field `colour`", "install the same a3cd"):
        assert words in why
    assert "(a3cd unknown)" in not_understood(welcome_of(), ValueError())


def test_another_network_is_named_with_what_may_differ() -> None:
    why = other_network("abc", welcome_of(model="def"), settings_of("network.kind='dense'"))
    for words in ("here (abc)", "the learner's (def)", "CartPole-v1", "network dense", "install the same versions"):
        assert words in why
