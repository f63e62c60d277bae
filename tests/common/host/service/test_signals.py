from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import zmq

from common.host.service import signals
from common.host.service.signals import Signals

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

STUBBORN = """
import time
from common.host.service.signals import Signals
with Signals() as signals:
    print("ready", flush=True)
    while signals.requested is None:
        time.sleep(0.01)
    print("asked", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def hangups_as_without_nohup() -> Iterator[None]:
    """The tests themselves may be run under nohup, where hang-ups are ignored; puts back what was before the test."""
    old = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, old)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_wakes_a_poller_and_is_noted(number: signal.Signals, code: int) -> None:
    with Signals() as noted:
        poller = zmq.Poller()
        poller.register(noted, zmq.POLLIN)
        assert poller.poll(0) == []
        assert (noted.requested, noted.exit_code) == (None, 0)
        signal.raise_signal(number)
        assert poller.poll(5000) == [(noted.fileno(), zmq.POLLIN)]
        noted.drain()
        assert poller.poll(0) == []
        assert (noted.requested, noted.exit_code) == (number, code)


def test_another_thread_wakes_a_poller_and_asks_for_nothing() -> None:
    with Signals() as noted:
        poller = zmq.Poller()
        poller.register(noted, zmq.POLLIN)
        thread = threading.Thread(target=noted.wake)
        thread.start()
        assert poller.poll(30_000)
        thread.join()
        for _ in range(100_000):
            noted.wake()  # more than a socket takes
        noted.drain()
        assert poller.poll(0) == [] and noted.requested is None
    noted.wake()


def test_a_signal_interrupts_a_poller_that_waits() -> None:
    with Signals() as noted:
        poller = zmq.Poller()
        poller.register(noted, zmq.POLLIN)
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGTERM))
        timer.start()
        assert poller.poll(30_000)
        timer.join()
        assert noted.requested == signal.SIGTERM


def test_everything_is_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with Signals():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_an_ignored_hangup_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Signals() as noted:
        signal.raise_signal(signal.SIGHUP)
        assert noted.requested is None


class Gone(BaseException):
    """In place of the end of this process."""


def test_a_second_signal_ends_the_process_but_an_echo_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise Gone(code)

    clock = [100.0]
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with Signals() as noted:
        signal.raise_signal(signal.SIGTERM)
        clock[0] += signals.ECHO_SECONDS / 2
        signal.raise_signal(signal.SIGTERM)
        clock[0] += signals.ECHO_SECONDS
        signal.raise_signal(signal.SIGHUP)
        with pytest.raises(Gone, match="130"):
            signal.raise_signal(signal.SIGINT)
        assert noted.exit_code == 143


def test_a_real_process_ends_at_the_second_signal() -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "asked\n"
        code = None
        while code is None:
            child.send_signal(signal.SIGINT)
            try:
                code = child.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        assert code == 130


def test_only_the_main_thread_may() -> None:
    raised: list[BaseException] = []

    def enter() -> None:
        try:
            with Signals():
                pass
        except ValueError as error:
            raised.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert len(raised) == 1
