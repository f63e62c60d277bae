import time
from collections.abc import Callable
from typing import Any

import pytest

from common.wire.messages import Goodbye, Heartbeat, Hello, Welcome
from deploy.cli.guest import Guest
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def test_it_joins_keeps_its_place_and_says_goodbye(start_learner: Callable[..., Any]) -> None:
    learner = start_learner()
    heard: list[object] = []
    with Guest("observer", learner.access) as guest:

        def kept() -> bool:
            now = time.monotonic()
            heard.extend(guest._hear(now))
            guest._keep(now, "watching")
            return any(isinstance(message, Heartbeat) for message in learner.heard)

        until(kept, "a heartbeat")
    until(lambda: isinstance(learner.heard[-1], Goodbye), "a goodbye")
    assert isinstance(heard[0], Welcome)
    hello, *others, _ = learner.heard
    assert isinstance(hello, Hello) and hello.role == "observer"
    assert {message.state for message in others if isinstance(message, Heartbeat)} == {"watching"}
