from __future__ import annotations

import logging

import pytest

from actor.telling import Telling
from common.errors import UnavailableError
from common.host.addresses import Address
from common.host.service.notify import Notifier
from common.wire.membership import KEPT_OUT, Membership
from tests.helpers.run import hello_of, welcome_of


class Told(Notifier):
    def __init__(self) -> None:
        super().__init__({})
        self.lines: list[str] = []

    def status(self, text: str) -> None:
        self.lines.append(text)


def telling(wait: float = 0.0) -> tuple[Telling, Told]:
    told = Told()
    return Telling(logging.getLogger("actor"), told, Address("gpu-box", 5555), wait), told


def test_each_change_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    one, told = telling()
    membership = Membership(hello_of(), 0.0)
    one.doing = "playing"
    for now in (0.0, 1.0, 6.0, 7.0):
        one.look(now, membership)
    membership.refused(8.0, "its key is not allowed")
    one.look(8.0, membership)
    membership.handle(9.0, welcome_of())
    one.look(9.0, membership)
    assert told.lines == [
        "waiting for the learner at tcp://gpu-box:5555",
        f"{KEPT_OUT}its key is not allowed",
        "playing",
    ]
    assert [record.getMessage() for record in caplog.records] == [
        "no answer from the learner at tcp://gpu-box:5555 for 6 s; waiting for it",
        "its key is not allowed; trying again, ever more slowly",
    ]


def test_it_waits_no_longer_than_it_is_told_to() -> None:
    one, _ = telling(wait=5.0)
    membership = Membership(hello_of(), 0.0)
    one.look(5.0, membership)
    with pytest.raises(UnavailableError):
        one.look(5.1, membership)
