from __future__ import annotations

import time
from threading import Event, current_thread

import pytest

pytest.importorskip("bokeh")

from common.errors import RefusedError, UnavailableError
from common.host.addresses import Address
from common.host.host_header import Hosts
from common.wire import sockets
from deploy.dashboard.showing import show
from deploy.dashboard.watched import WatchedRun
from tests.helpers.status import run_status

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


class Watch:
    """A run that becomes what it is told to, in its thread, which waits for the end."""

    def __init__(self, answer: RefusedError | bool) -> None:
        self.run = WatchedRun("learner", "tcp://gpu-box:5555", time.time())
        self._answer = answer
        self.thread = ""
        self.told = Event()

    def follow(self, stopped: Event) -> None:
        self.thread = current_thread().name
        if isinstance(self._answer, RefusedError):
            self.run.failed(time.time(), self._answer)
        elif self._answer:
            self.run.took(time.time(), run_status())
        self.told.set()
        stopped.wait()


def shown(*watches: Watch, timeout: float = 0.01) -> None:
    """Until all have been told what they are."""
    with sockets.reserve(Address("127.0.0.1", 0)) as listener:
        show(
            [(watch.run, watch.follow) for watch in watches],
            listener,
            Hosts([], loopback=True),
            None,
            stopping=lambda: all(watch.told.is_set() for watch in watches),
            timeout=timeout,
        )


def test_each_run_has_its_thread_which_ends_with_the_dashboard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    watches = Watch(True), Watch(False)
    shown(*watches, timeout=0.0)
    assert {watch.thread for watch in watches} == {"watch tcp://gpu-box:5555"}
    assert "2 runs at http://127.0.0.1:" in caplog.text


def never(answer: RefusedError | bool) -> Watch:
    watch = Watch(answer)
    watch.told.set = lambda: None  # type: ignore[method-assign]
    return watch


def test_nobody_answers() -> None:
    with pytest.raises(UnavailableError, match=r"no learner answers at tcp://gpu-box:5555 \(waited 0.01 s\)"):
        shown(never(False))


def test_who_is_refused_from_the_first_ends_with_the_reason() -> None:
    with pytest.raises(RefusedError, match="another protocol"):
        shown(never(RefusedError("another protocol")), timeout=60.0)
