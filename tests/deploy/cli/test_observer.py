from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from common.errors import EXIT_TRY_LATER, RefusedError, UnavailableError
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.run.status import RunStatus
from common.wire import membership, sockets
from common.wire.messages import Goodbye, Heartbeat, Hello, Inspect, Refused, Stop
from deploy.cli import observer as module
from deploy.cli.observer import Observer, fetch, watch
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
Start = Callable[..., Any]
PATIENCE = 20.0


def status_when(observer: Observer, wanted: Callable[[RunStatus], bool]) -> RunStatus:
    def look() -> RunStatus | None:
        status = observer.next(0.05)
        return status if status is not None and wanted(status) else None

    return until(look, "such a status")


def look_until(observer: Observer, happens: Callable[[], bool]) -> None:
    def look() -> bool:
        observer.next(0.02)
        return happens()

    until(look)


def nobody() -> Address:
    with sockets.reserve(Address("127.0.0.1", 0)) as listener:
        return Address("127.0.0.1", listener.getsockname()[1])


def test_asks_again_and_again(start_learner: Start) -> None:
    learner = start_learner(frames=1)
    with Observer(learner.access, ask_seconds=0.02) as observer:
        status_when(observer, lambda status: status.frames == 1)
        learner.report["frames"] = 2
        status_when(observer, lambda status: status.frames == 2)
    hello, *others = learner.heard
    assert isinstance(hello, Hello)
    assert hello.role == "observer"
    assert {type(message) for message in others} >= {Inspect, Heartbeat}


def test_says_goodbye(start_learner: Start) -> None:
    learner = start_learner()
    with Observer(learner.access) as observer:
        status_when(observer, lambda _: True)
    until(lambda: isinstance(learner.heard[-1], Goodbye))


def test_none_when_nobody_answers_in_time() -> None:
    with Observer(LearnerEndpoint(nobody())) as observer:
        assert observer.next(0.05) is None


def test_a_learner_that_comes_later_is_found(start_learner: Start) -> None:
    address = nobody()
    with Observer(LearnerEndpoint(address)) as observer:
        assert observer.next(0.05) is None
        start_learner(address.port, frames=7)
        assert status_when(observer, lambda _: True).frames == 7


def test_a_learner_that_restarts_is_joined_again(start_learner: Start) -> None:
    learner = start_learner(epoch=1)
    with Observer(learner.access, ask_seconds=0.02) as observer:
        status_when(observer, lambda status: status.epoch == 1)
        learner.answers = False
        learner.say(Stop(reason="signal", final=False))
        look_until(observer, lambda: observer.ended is not None)
        learner.stop()
        again = start_learner(learner.address.port, epoch=2)
        status_when(observer, lambda status: status.epoch == 2)
        assert observer.ended is None
    assert any(isinstance(message, Hello) for message in again.heard)


def test_a_learner_that_forgets_its_observer_is_joined_again(
    start_learner: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOST_SECONDS", 0.1)
    learner = start_learner()
    learner.answers = False
    with Observer(learner.access, ask_seconds=0.02) as observer:
        look_until(observer, lambda: sum(isinstance(message, Hello) for message in learner.heard) > 1)
        learner.answers = True
        status_when(observer, lambda _: True)


def test_fetch(start_learner: Start) -> None:
    learner = start_learner(frames=42)
    assert fetch(learner.access, PATIENCE, lambda _: None).frames == 42


def test_fetch_waits_and_says_so_and_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "FIRST_NOTICE_SECONDS", 0.05)
    address, said = nobody(), list[str]()
    with pytest.raises(UnavailableError, match=f"no learner answers at {address} .*a3cd doctor") as raised:
        fetch(LearnerEndpoint(address), 2.0, said.append)
    assert raised.value.exit_code == EXIT_TRY_LATER
    assert said
    assert said[0].startswith(f"no learner answers at {address} for 0 s")


def test_a_learner_of_another_protocol_is_told(start_learner: Start) -> None:
    learner = start_learner()
    learner.refusal = Refused(code="protocol", reason="protocol 1 is not 2")
    with pytest.raises(RefusedError, match="protocol 1 is not 2"):
        fetch(learner.access, PATIENCE, lambda _: None)


def test_a_report_that_cannot_be_read_is_told(start_learner: Start) -> None:
    learner = start_learner()
    learner.report["frames"] = "many"
    with pytest.raises(RefusedError, match=r"frames.*same a3cd on both ends"):
        fetch(learner.access, PATIENCE, lambda _: None)


def test_watch_goes_on_until_the_run_is_over(start_learner: Start) -> None:
    learner, said, seen = start_learner(), list[str](), list[int]()

    def end() -> None:
        learner.say(Stop(reason="paused", final=False))
        learner.say(Stop(reason="it plays", final=True))

    for status in watch(learner.access, PATIENCE, said.append):
        seen.append(status.frames)
        if len(seen) == 3:
            learner.answers = False
            Thread(target=end).start()
    assert len(seen) >= 3
    assert said[-1] == "the run is over: it plays"


def test_watch_gives_up_on_a_learner_that_never_was() -> None:
    with pytest.raises(UnavailableError):
        next(watch(LearnerEndpoint(nobody()), 0.1, lambda _: None))
