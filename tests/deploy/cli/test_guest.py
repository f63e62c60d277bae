import time
from collections.abc import Callable
from typing import Any

import pytest

from common.wire.messages import Goodbye, Heartbeat, Hello, Welcome
from deploy.cli.guest import Guest

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
PATIENCE = 20.0


def test_it_joins_keeps_its_place_and_says_goodbye(start_learner: Callable[..., Any]) -> None:
    learner = start_learner()
    deadline = time.monotonic() + PATIENCE
    heard: list[object] = []
    with Guest("observer", learner.access) as guest:
        while not any(isinstance(message, Heartbeat) for message in heard) and time.monotonic() < deadline:
            now = time.monotonic()
            heard += guest._hear(now)
            guest._keep(now, "watching")
            guest._wait(now, min(deadline, guest.membership.deadline))
    while not isinstance(learner.heard[-1], Goodbye) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert isinstance(heard[0], Welcome)
    hello, *others = learner.heard
    assert isinstance(hello, Hello) and hello.role == "observer"
    states = [message.state for message in others if isinstance(message, Heartbeat)]
    assert states and set(states) == {"watching"}
    assert isinstance(learner.heard[-1], Goodbye)
