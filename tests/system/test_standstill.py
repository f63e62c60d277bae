"""Processes that stop for a while, hang or are killed: one launcher has actors that outlive it, one has a child."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.host.addresses import Address
from common.run.status import RunStatus
from tests.helpers.daemons import Daemon, Daemons, free_address, status_when
from tests.helpers.programs import first_in_path, lines, program

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(300)]

EXPIRY_SECONDS = 8.0
STANDSTILL_SECONDS = 12.0
SETTINGS = f"""
[environment]
id = "CartPole-v1"
step_seconds = 0.002 # a core is left for the tests
[exchange]
heartbeat_seconds = 0.5
expiry_seconds = {EXPIRY_SECONDS}
[scaling]
policy = "fixed"
minimum = 3
"""
SYSTEMCTL = """
import os, signal, subprocess, sys
from pathlib import Path
base = Path({base!r})
names = sys.argv[sys.argv.index("--") + 1:]

def pid(name):
    try:
        found = int((base / name).read_text())
        os.kill(found, 0)
        return found
    except (OSError, ValueError):
        return 0

for name in names:
    slot = name.removeprefix("a3cd-actor@").removesuffix(".service")
    if "show" in sys.argv and slot.isdecimal():
        print(f"Id={{name}}\\nLoadState=loaded\\nActiveState={{'active' if pid(name) else 'inactive'}}\\n")
        continue
    if "show" not in sys.argv:
        with (base / "calls").open("a") as file:
            file.write(f"{{sys.argv[4]}} {{slot}}\\n")
    if "start" in sys.argv and not pid(name):
        words = [sys.executable, "-P", "-m", "deploy.cli.command", "actor", {address!r}, "--name", f"box-{{slot}}"]
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        (base / name).write_text(str(subprocess.Popen(words, start_new_session=True, **quiet).pid))
    if "stop" in sys.argv and pid(name):
        os.kill(pid(name), signal.SIGTERM)
"""


@dataclass
class Crew:
    daemons: Daemons
    address: Address
    learner: Daemon
    box: Daemon
    """Its actors outlive it: a systemctl that we made keeps them."""
    kids: Daemon
    """Its actor is its child."""
    folder: Path

    @property
    def calls(self) -> list[str]:
        """What the systemctl started and stopped so far."""
        return lines(self.folder / "calls")

    def at_work(self, good: Callable[[RunStatus], bool] = lambda _: True) -> RunStatus:
        """Once three actors send gradients."""
        first: dict[int, int] = {}

        def look(status: RunStatus) -> bool:
            for peer in status.actors:
                first.setdefault(peer.pid, peer.gradients)
            grows = [peer for peer in status.actors if peer.gradients > first[peer.pid]]
            return len(status.actors) == len(grows) == 3 and good(status)

        return status_when(self.address, look, "three actors at work")


def pids(status: RunStatus) -> dict[str, int]:
    return {peer.name: peer.pid for peer in status.actors}


BOX = ("launcher", "--slots", 2, "--name", "box", "--start-with", "systemd")


@contextmanager
def begun(house: Daemons) -> Iterator[Crew]:
    address, folder = free_address(), house.folder / "bin"
    folder.mkdir()
    program(folder, "systemctl", SYSTEMCTL.format(base=str(folder), address=str(address)))
    learner = house.start(
        *("learner", "--config", house.config(SETTINGS), "--bind", address, "--run-dir", house.folder / "run")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", first_in_path(folder))
        box = house.start(*BOX, address)
        kids = house.start("launcher", address, "--slots", 1, "--name", "kids")
        one = Crew(house, address, learner, box, kids, folder)
        one.at_work()
        yield one


@pytest.fixture(scope="module")
def crew(house: Daemons) -> Iterator[Crew]:
    with begun(house) as one:
        yield one


def test_a_launcher_that_is_killed_is_followed_by_one_that_stops_and_starts_no_actor(daemons: Daemons) -> None:
    with begun(daemons) as crew:
        follow(crew)


def follow(crew: Crew) -> None:
    before = crew.at_work()
    assert sorted(pids(before)) == ["box-0", "box-1", "kids-0"]
    calls = crew.calls
    crew.box.signal(signal.SIGKILL)
    crew.box = crew.daemons.start(*BOX, crew.address)
    crew.box.wait_for("found an actor at work slot=1", "the learner orders actors=2 slots=2")
    after = crew.at_work(lambda status: sorted(fleet.running for fleet in status.launchers) == [1, 2])
    assert pids(after) == pids(before)
    assert crew.calls == calls


def test_a_learner_that_stands_still_for_longer_than_its_peers_may_be_silent_loses_none(crew: Crew) -> None:
    before, calls, said = crew.at_work(), crew.calls, crew.learner.said
    os.kill(crew.learner.pid, signal.SIGSTOP)
    time.sleep(STANDSTILL_SECONDS)
    os.kill(crew.learner.pid, signal.SIGCONT)
    crew.learner.wait_for("the learner stood still for")
    after = crew.at_work(lambda status: status.version > before.version)
    assert pids(after) == pids(before)
    assert "silent" not in crew.learner.said.removeprefix(said)
    assert crew.calls == calls
    assert "an actor ended" not in crew.kids.said


def test_a_launcher_that_stands_still_joins_again_and_has_its_actor(crew: Crew) -> None:
    before, calls = crew.at_work(), crew.calls
    os.kill(crew.kids.pid, signal.SIGSTOP)
    crew.learner.wait_for(f"launcher kids has been silent for {EXPIRY_SECONDS:g} s")
    time.sleep(STANDSTILL_SECONDS - EXPIRY_SECONDS)
    os.kill(crew.kids.pid, signal.SIGCONT)
    crew.kids.wait_for("this launcher stood still for")
    after = crew.at_work(lambda status: sorted(fleet.running for fleet in status.launchers) == [1, 2])
    assert pids(after) == pids(before)
    assert crew.calls == calls


def test_an_actor_that_hangs_is_ended_and_replaced(crew: Crew) -> None:
    before = pids(crew.at_work())
    os.kill(before["kids-0"], signal.SIGSTOP)
    crew.kids.wait_for("an actor hangs: it is ended, and started again slot=0", "an actor ended slot=0 exit_code=137")
    after = pids(crew.at_work(lambda status: pids(status)["kids-0"] != before["kids-0"]))
    assert {name: pid for name, pid in after.items() if name != "kids-0"} == {
        name: pid for name, pid in before.items() if name != "kids-0"
    }


def test_an_actor_that_is_killed_is_not_counted_beside_its_successor(crew: Crew) -> None:
    before = pids(crew.at_work())
    os.kill(before["box-0"], signal.SIGKILL)

    def good(status: RunStatus) -> bool:
        new = [peer for peer in status.actors if peer.name == "box-0" and peer.pid != before["box-0"]]
        return bool(new)

    status = status_when(crew.address, good, "a new box-0")
    assert sorted(peer.name for peer in status.actors) == ["box-0", "box-1", "kids-0"]
    crew.at_work()
