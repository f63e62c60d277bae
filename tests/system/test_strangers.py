"""A real learner that trains with two actors while strangers do to its ports whatever comes to their minds."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from common.errors import EXIT_SIGTERM
from common.host.addresses import Address
from common.host.process import raise_descriptor_limit
from common.host.security.access import LearnerEndpoint
from common.run.folder import RunFolder
from common.run.status import RunStatus
from deploy.cli.observer import Observer
from tests.helpers.daemons import Daemon, Daemons, free_address, terminate
from tests.helpers.daemons import daemons as some_daemons
from tests.helpers.stranger import PING, Stranger, frame
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SETTINGS = """
[environment]
id = "CartPole-v1"
step_seconds = 0.002
[network]
hidden = [16]
[checkpoint]
every_seconds = 1.0
[limits]
until_return = 1e9
"""
SECONDS = 3.0
"""That an attack lasts, or longer, until one got through."""
DESCRIPTORS = 256
MIB = 2**20


@dataclass
class House:
    address: Address
    learner: Daemon
    actors: list[Daemon]
    run_dir: Path
    observer: Observer
    """Who comes from the address of a flood may have to wait for its end; who is in stays in."""

    def at_work(self, beyond: int = 0) -> RunStatus:
        def look() -> RunStatus | None:
            status = self.observer.next(1.0)
            good = status is not None and len(status.actors) == len(self.actors) and status.gradients > beyond
            return status if good else None

        return until(look, f"{len(self.actors)} actors at work and {beyond} gradients")

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.learner.pid)

    def saved(self) -> int:
        newest = RunFolder(self.run_dir).newest()
        return 0 if newest is None else newest.order[0]


@contextlib.contextmanager
def begun(daemons: Daemons) -> Iterator[House]:
    address = free_address()
    run_dir = daemons.folder / "run"
    learner = daemons.start("learner", "--config", daemons.config(SETTINGS), "--bind", address, "--run-dir", run_dir)
    actors = [daemons.start("actor", address) for _ in range(2)]
    with Observer(LearnerEndpoint(address), ask_seconds=0.1) as observer:
        house = House(address, learner, actors, run_dir, observer)
        house.at_work(beyond=50)
        yield house


@pytest.fixture(scope="module")
def crew(house: Daemons) -> Iterator[House]:
    with begun(house) as one:
        yield one


@contextlib.contextmanager
def meanwhile(attack: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """The attack again and again, in a thread; yields what tells whether one got through to its end."""
    over, through = threading.Event(), threading.Event()

    def go_on() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError, AssertionError):  # it was thrown out
                attack()
                through.set()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield through.is_set
    finally:
        over.set()
        thread.join()


def endless_message(port: int) -> None:
    with Stranger(port) as one:
        one.pour(frame(b"x", more=True) * 10_000, 200)


def flood_and_reset(port: int) -> None:
    with Stranger(port) as one:
        one.pour((20 * frame(b"x") + PING) * 500, 50)
        one.reset()


def subscriptions(port: int) -> None:
    with Stranger(port + 1, "SUB") as one:
        one.pour(b"".join(frame(b"\1%d" % number) for number in range(100_000)), 1)
        one.reset()


def thousand_idle(port: int) -> None:
    raise_descriptor_limit()
    with contextlib.ExitStack() as stack:
        for number in range(1000):
            stack.enter_context(Stranger(port + number % 2, handshake=False))
        time.sleep(SECONDS)


@pytest.mark.parametrize("attack", [endless_message, flood_and_reset, subscriptions, thousand_idle])
def test_the_learner_trains_on_and_its_memory_does_not_grow(crew: House, attack: Callable[[int], None]) -> None:
    before, memory, saved = crew.at_work(), crew.process.memory_info().rss, crew.saved()
    end = time.monotonic() + SECONDS

    def stands() -> bool:
        assert crew.learner.running, crew.learner
        assert crew.process.memory_info().rss < memory + 400 * MIB
        return time.monotonic() >= end

    with meanwhile(lambda: attack(crew.address.port)) as got_through:
        until(lambda: stands() and got_through(), "an attack that got through")
        during = crew.at_work(before.gradients)
    after = crew.at_work(during.gradients + 50)
    until(lambda: crew.saved() > saved, "a newer checkpoint")
    assert (after.epoch, {peer.pid for peer in after.actors}) == (1, {peer.pid for peer in before.actors})
    assert crew.process.memory_info().rss < memory + 300 * MIB
    until(lambda: crew.process.num_fds() < 100, "descriptors of connections that are gone")
    if attack is endless_message:  # the others may be over before the guard looks, or are no offence
        assert "from 127.0.0.1 was ended: it" in crew.learner.said


@pytest.mark.slow
def test_more_connections_than_descriptors(tmp_path: Path) -> None:
    """They neither end the run, nor keep checkpoints from being written, nor actors from joining."""
    with some_daemons(tmp_path, ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")) as daemons:
        stack = contextlib.ExitStack()
        crew = stack.enter_context(begun(daemons))
        with stack:
            for number in range(2 * DESCRIPTORS):
                stack.enter_context(Stranger(crew.address.port + number % 2, handshake=False))
            saved = crew.saved()
            until(lambda: crew.saved() > saved, "a checkpoint beside so many connections")
            until(lambda: crew.process.num_fds() < DESCRIPTORS, "descriptors that connections do not hold")
            crew.actors.append(daemons.start("actor", crew.address))
            crew.at_work(beyond=crew.at_work().gradients)
        assert terminate(crew.learner, *crew.actors) == [EXIT_SIGTERM] * 4
        assert "was ended: it is one of too many" in crew.learner.said
