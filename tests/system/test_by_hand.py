"""Learner, launcher and actor started one by one, as in three terminals; each test leaves the crew at work."""

from __future__ import annotations

import json
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest
import zmq

from common.errors import EXIT_SIGTERM
from common.host.addresses import Address
from common.run.folder import Checkpoint, RunFolder
from common.run.status import RunStatus
from tests.helpers.daemons import Daemon, Daemons, free_address, status_when, terminate
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SETTINGS = """
[environment]
id = "CartPole-v1"
step_seconds = 0.002 # a core is left for the tests
[exchange]
expiry_seconds = 8.0 # an actor that was killed is not waited for longer
[scaling]
policy = "fixed"
minimum = 2
[checkpoint]
every_seconds = 1.0
"""


@dataclass
class House:
    """What runs, and where."""

    daemons: Daemons
    address: Address
    actor: Daemon
    launcher: Daemon
    learner: Daemon

    @property
    def run_dir(self) -> Path:
        return self.daemons.folder / "run"

    def status_when_all_work(self, beyond: int = 0) -> RunStatus:
        """Three actors in the run, each of which has played."""

        def good(status: RunStatus) -> bool:
            return status.version > beyond and len(status.actors) == 3 and all(peer.gradients for peer in status.actors)

        return status_when(self.address, good, f"three actors at work and version {beyond}")


def begin(house: Daemons) -> House:
    """The actor is there before its learner, and the launcher after."""
    address = free_address()
    actor = house.start("actor", address, "--name", "by-hand")
    actor.wait_for(f"no answer from the learner at {address} for")
    assert actor.running
    learner = house.start(
        *("learner", "--config", house.config(SETTINGS), "--bind", address, "--run-dir", house.folder / "run")
    )
    launcher = house.start("launcher", address, "--slots", 2, "--name", "here")
    one = House(house, address, actor, launcher, learner)
    one.status_when_all_work()
    return one


@pytest.fixture(scope="module")
def crew(house: Daemons) -> House:
    return begin(house)


def test_all_are_named_by_status(crew: House) -> None:
    status = crew.daemons.run("status", crew.address, "--json", "--timeout", 60).result
    assert status["state"] == "running"
    origins = {peer["name"]: peer["launcher"] for peer in status["actors"]}
    assert origins == {"by-hand": "", "here-0": "here", "here-1": "here"}
    assert {peer["pid"] for peer in status["actors"]} == {
        crew.actor.pid,
        *(process.pid for process in crew.launcher.members("actor")),
    }
    (fleet,) = status["launchers"]
    assert (fleet["name"], fleet["slots"], fleet["ordered"], fleet["running"]) == ("here", 2, 2, 2)
    shown = crew.daemons.run("status", crew.address, "--timeout", 60).printed
    for text in ("CartPole-v1", "by-hand", "here-0", "here-1", "running"):
        assert text in shown


def test_every_gradient_changes_the_weights(crew: House) -> None:
    """The trap: a server that applies only the first gradient of each actor."""
    first = crew.status_when_all_work()
    later = status_when(
        crew.address,
        lambda status: min(peer.gradients for peer in status.actors) >= 20 and status.version >= first.version + 2,
        "20 gradients of each, and newer weights",
    )
    assert later.gradients >= later.version
    saved: dict[int, Checkpoint] = {}

    def two_checkpoints() -> bool:
        newest = RunFolder(crew.run_dir).newest()
        if newest is not None:
            checkpoint = newest.read()
            saved[checkpoint.version] = checkpoint
        return len(saved) == 2

    until(two_checkpoints, "two checkpoints")
    one, two = (saved[version] for version in sorted(saved))
    assert two.version > one.version + 1
    assert not np.array_equal(one.weights, two.weights)


def test_an_actor_that_was_killed_is_started_again(crew: House) -> None:
    before = {peer.name: peer.pid for peer in crew.status_when_all_work().actors}
    psutil.Process(before["here-0"]).kill()
    after = status_when(
        crew.address,
        lambda status: any(
            peer.name == "here-0" and peer.pid != before["here-0"] and peer.gradients for peer in status.actors
        ),
        "a new here-0 at work",
    )
    assert {peer.name: peer.pid for peer in after.actors if peer.pid in before.values() and peer.name != "here-0"} == {
        name: pid for name, pid in before.items() if name != "here-0"
    }
    crew.launcher.wait_for("an actor ended slot=0 exit_code=137")


def test_hostile_bytes_do_no_harm(crew: House) -> None:
    before = crew.status_when_all_work()
    where = (crew.address.host, crew.address.port)
    for junk in (b"GET / HTTP/1.1\r\nHost: learner\r\n\r\n", bytes(range(256)) * 64, b"\xff" * 10 + b"\x7f" * 54, b""):
        with socket.create_connection(where, timeout=10) as one:
            one.sendall(junk)
    rng = np.random.default_rng(0)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context.socket(zmq.DEALER) as dealer:
        dealer.connect(str(crew.address))
        for size in rng.integers(0, 2000, 200):
            dealer.send_multipart([rng.bytes(int(size)) for _ in range(int(rng.integers(1, 5)))])
        dealer.send_multipart([b"", b""])
        dealer.send_multipart([b"\xdf\xff\xff\xff\xff", b"\x00" * 100])  # a map that says it is very long
        dealer.close(linger=2000)
    with context.socket(zmq.DEALER) as dealer:
        dealer.connect(str(crew.address))
        dealer.send(bytes(64 * 2**20))  # above what the learner takes: ZeroMQ drops the connection
        dealer.close(linger=2000)
    context.term()
    after = crew.status_when_all_work(before.version + 50)
    assert after.epoch == before.epoch
    assert crew.learner.running
    assert 1 <= crew.learner.said.count("bytes that are no message") <= 10
    assert "Traceback" not in crew.learner.said


@pytest.mark.long
def test_a_learner_comes_back_to_its_actors_and_then_all_end_when_they_are_told_to(daemons: Daemons) -> None:
    crew = begin(daemons)
    before = crew.status_when_all_work()
    pids = {peer.name: peer.pid for peer in before.actors}
    status_when(crew.address, lambda status: status.mean_return is not None, "an episode")
    crew.learner.signal(signal.SIGTERM)
    assert crew.learner.wait() == EXIT_SIGTERM
    folder = RunFolder(crew.run_dir)
    newest = folder.newest()
    assert newest is not None
    stopped = newest.read()
    summary = json.loads(folder.summary_file.read_text())
    crew.learner = crew.daemons.start("learner", "--bind", crew.address, "--run-dir", crew.run_dir, "--resume")
    resumed = crew.status_when_all_work(stopped.version)

    counters = stopped.state["counters"]
    assert stopped.version == counters["version"] > 0
    assert (summary["state"], summary["frames"]) == ("stopped", counters["frames"])
    assert resumed.epoch == folder.record().epoch == before.epoch + 1
    assert f"resumed at version {counters['version']}, {counters['frames']} frames" in crew.learner.said
    for name in ("version", "frames", "episodes", "gradients", "seconds"):
        assert getattr(resumed, name) >= counters[name], name
    assert resumed.mean_return is not None, "the episodes before the restart count"
    assert stopped.optimizer
    assert all(np.isfinite(tensor).all() for tensor in stopped.optimizer.values())

    assert {peer.name: peer.pid for peer in resumed.actors} == pids
    assert crew.actor.running
    assert "the learner was stopped; it may come back" in crew.launcher.said

    assert terminate(crew.actor, crew.launcher) == [EXIT_SIGTERM] * 2
    assert crew.launcher.family() == []
    for name in ("actor by-hand", "actor here-0", "actor here-1", "launcher here"):
        crew.learner.wait_for(f"{name} left: stopped by")
    assert terminate(crew.learner) == [EXIT_SIGTERM]
