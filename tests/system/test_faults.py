"""Real daemons that are killed at the worst moment, moved, or given a clock that jumps; a run under random faults."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from benchmarks import faults
from benchmarks.link import Link
from common.host.addresses import Address
from common.run.folder import RunFolder
from common.run.status import RunStatus
from common.settings.sections import Checkpoint
from tests.helpers.daemons import Daemon, Daemons, free_address, status_when
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SETTINGS = """
[environment]
id = "CartPole-v1"
step_seconds = 0.002
[checkpoint]
every_seconds = 1.0
"""
MOST_LOST_SECONDS = 30.0
CLOCK = """
import os, time
_time, _file = time.time, os.environ["A3CD_TEST_CLOCK"]
time.time = lambda: _time() + float(open(_file).read())
"""
"""A module that Python imports at its start: the wall clock is off by what the file says."""


def learner(daemons: Daemons, address: Address) -> Daemon:
    where = ("--bind", address, "--run-dir", daemons.folder / "run", "--resume-or-create")
    return daemons.start("learner", "--config", daemons.config(SETTINGS), *where)


def at_work(address: Address, epoch: int = 1, actors: int = 2, beyond: int = 0) -> RunStatus:
    """All actors have played in this epoch, and the weights are beyond a version."""

    def good(status: RunStatus) -> bool:
        played = [peer for peer in status.actors if peer.gradients]
        return status.epoch == epoch and len(played) == actors and status.version > beyond

    return status_when(address, good, f"{actors} actors at work in epoch {epoch}, beyond version {beyond}")


def saved(daemons: Daemons, beyond: int = 0) -> int:
    """Version of the newest checkpoint, once there is one beyond this version."""
    folder = RunFolder(daemons.folder / "run")

    def look() -> int:
        newest = folder.newest()
        return newest.order[0] if newest is not None and newest.order[0] > beyond else 0

    return until(look, f"a checkpoint beyond version {beyond}")


def test_a_killed_learner_loses_what_came_after_its_last_checkpoint_and_no_actor(daemons: Daemons) -> None:
    assert Checkpoint().every_seconds <= MOST_LOST_SECONDS
    address = free_address()
    one = learner(daemons, address)
    actors = [daemons.start("actor", address) for _ in range(2)]
    at_work(address)
    version = saved(daemons)
    one.signal(signal.SIGKILL)
    one.wait()
    kept = saved(daemons)
    another = learner(daemons, address)
    status = at_work(address, epoch=2, beyond=kept)
    assert f"resumed at version {kept}," in another.said
    assert kept >= version
    assert {peer.pid for peer in status.actors} == {actor.pid for actor in actors}


def test_all_are_killed_while_a_checkpoint_is_written(daemons: Daemons) -> None:
    address = free_address()
    crew = [learner(daemons, address), daemons.start("actor", address), daemons.start("actor", address)]
    at_work(address)
    version = saved(daemons)
    checkpoints = RunFolder(daemons.folder / "run").checkpoints
    until(lambda: any(checkpoints.glob(".*.partial")) or None, "a checkpoint that is being written")
    for daemon in crew:
        daemon.signal(signal.SIGKILL)
    for daemon in crew:
        daemon.wait()
    kept = saved(daemons)
    crew = [learner(daemons, address), daemons.start("actor", address), daemons.start("actor", address)]
    at_work(address, epoch=2, beyond=kept)
    assert kept >= version
    assert "damaged" not in crew[0].said


def test_a_learner_that_is_restarted_elsewhere_is_found_behind_its_name(daemons: Daemons) -> None:
    port = free_address().port
    with Link("127.0.0.2", "127.0.0.1", port) as link:
        here, there = Address("127.0.0.1", port), Address("127.0.0.3", port)
        first = learner(daemons, here)
        actors = [daemons.start("actor", Address("127.0.0.2", port)) for _ in range(2)]
        at_work(here)
        kept = saved(daemons)
        first.signal(signal.SIGKILL)
        first.wait()
        learner(daemons, there)
        link.lead_to("127.0.0.3")
        status = at_work(there, epoch=2, beyond=kept)
    assert {peer.pid for peer in status.actors} == {actor.pid for actor in actors}


def test_a_wall_clock_that_jumps_changes_nothing(tmp_path: Path, daemons: Daemons) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(CLOCK)
    clock = tmp_path / "clock"
    clock.write_text("0")
    daemons._prefix = ("env", f"PYTHONPATH={tmp_path / 'site'}", f"A3CD_TEST_CLOCK={clock}")
    address = free_address()
    one = learner(daemons, address)
    actors = [daemons.start("actor", address) for _ in range(2)]
    before = at_work(address)
    for jump in ("86400", "-86400", "0"):
        replace(clock, jump)
        before = at_work(address, beyond=before.version + 100)
        saved(daemons, beyond=before.version)
    assert all(daemon.running for daemon in (one, *actors))
    assert {peer.pid for peer in before.actors} == {actor.pid for actor in actors}
    lines = RunFolder(daemons.folder / "run").metrics_file.read_text().splitlines()
    times = [json.loads(line)["time"] for line in lines]
    assert max(times) - min(times) > 86400, "the clock did jump"
    assert before.seconds < 3600


def replace(file: Path, text: str) -> None:
    """A reader sees the old text or the new one."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


@pytest.mark.long
@pytest.mark.slow
def test_a_run_under_random_faults_applies_each_gradient_once() -> None:
    """The long one: `python -m benchmarks faults`."""
    outcome = faults.run(faults=8, seconds=20.0, seed=3, goal=None, say=lambda _: None)
    assert outcome.unexpected == []
    assert (outcome.replay["equal"], outcome.replay["duplicates"]) == (True, [])
