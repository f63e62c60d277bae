"""Learners as processes of their own, on disks that are full, read-only, slow or damaged."""

from __future__ import annotations

import json
import signal
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from common.run.folder import RunFolder
from common.run.status import RunStatus
from tests.helpers.daemons import Daemon, Daemons, daemons, free_address, status_when
from tests.helpers.disks import Disk, lacking, read_only, small_disk
from tests.helpers.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(300)]
needs_disk = pytest.mark.skipif(bool(lacking()), reason=lacking())

SETTINGS = """
environment.id = "CartPole-v1"
environment.num_envs = 2
environment.step_seconds = 0.005
network.hidden = [32]
checkpoint.every_seconds = 1
"""


class Site:
    """A learner in `run_dir`, and an actor."""

    def __init__(self, house: Daemons, run_dir: Path) -> None:
        self.house, self.address = house, free_address()
        self.config = house.config(SETTINGS)
        self.run_dir, self.folder = run_dir, RunFolder(run_dir)

    def start(self, *words: object) -> Daemon:
        options = ("--config", self.config, "--bind", self.address, "--run-dir", self.run_dir)
        return self.house.start("learner", *options, *words)

    def play(self) -> Daemon:
        return self.house.start("actor", self.address, "--name", "a")

    def refused(self, code: int, *words: object) -> str:
        """The learner cannot begin: its last line."""
        daemon = self.start(*words)
        assert daemon.wait() == code, daemon
        return daemon.errors[-1]

    def saved(self, more_than: int = -1) -> RunStatus:
        def good(status: RunStatus) -> bool:
            version = status.checkpoint.version
            return version is not None and version > more_than and not status.checkpoint.error

        return status_when(self.address, good, f"a checkpoint beyond version {more_than}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Of some hundred kilobytes."""
    with small_disk(tmp_path / "disk", "600k") as one:
        yield one


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Daemons]:
    (tmp_path / "house").mkdir()
    with daemons(tmp_path / "house") as one:
        yield one


@pytest.mark.long
@needs_disk
def test_a_disk_that_fills_up_while_the_run_goes_on(disk: Disk, house: Daemons) -> None:
    site = Site(house, disk.path / "run")
    learner = site.start()
    actor = site.play()
    first = site.saved()
    disk.fill()
    full = status_when(site.address, lambda status: status.checkpoint.error, "a checkpoint that fails")
    assert full.checkpoint.error == f"{site.folder.checkpoints}: No space left on device"
    assert f"the checkpoint could not be written: {full.checkpoint.error}" in full.warnings
    shown = house.run("status", site.address, "--timeout", 60).printed
    assert "No space left on device" in shown
    status_when(site.address, lambda status: status.version > full.version, "training that goes on")

    disk.free()
    well = site.saved(more_than=first.checkpoint.version or 0)
    with read_only(site.folder.checkpoints):
        status_when(site.address, lambda status: "Read-only" in status.checkpoint.error, "a checkpoint that fails")
    site.saved(more_than=well.checkpoint.version or 0)

    disk.fill()
    status_when(site.address, lambda status: status.checkpoint.error, "a checkpoint that fails")
    learner.signal(signal.SIGTERM)
    assert learner.wait() == 75
    newest = site.folder.newest()
    assert newest is not None
    assert learner.errors[-1].endswith(
        f"the last checkpoint could not be written: {site.folder.checkpoints}: No space left on device; safe is the "
        f"checkpoint of version {newest.order[0]}"
    )

    assert "No space left on device" in site.refused(75, "--resume")
    disk.free()
    site.start("--resume-or-create").wait_for(f"resumed at version {newest.order[0]}")
    status_when(site.address, lambda status: status.version > newest.order[0], "training that goes on")
    assert actor.running


@needs_disk
def test_a_training_that_could_never_save_says_so(disk: Disk, house: Daemons) -> None:
    """The network is larger than the disk."""
    run_dir = disk.path / "run"
    training = house.run(
        *("train", "CartPole-v1", "--actors", 1, "--frames", 500, "--set", "network.hidden=[300, 300]"),
        *("--run-dir", run_dir),
        code=75,
    )
    assert "no checkpoint was ever written: nothing of the run is safe" in training.said
    assert "  saved     there is no checkpoint" in training.printed


def test_what_a_start_finds(tmp_path: Path, house: Daemons) -> None:
    site = Site(house, tmp_path / "run")
    learner, actor = site.start(), site.play()
    version = 0
    for _ in range(2):
        version = site.saved(more_than=version).checkpoint.version or 0
    assert f"another learner (process {learner.pid}) is at work here" in Site(house, site.run_dir).refused(
        75, "--resume"
    )
    learner.signal(signal.SIGKILL)
    learner.wait()
    actor.signal(signal.SIGTERM)
    actor.wait()
    good = {paths.folder.name for paths in site.folder.all_checkpoints()}
    newest, before = site.folder.all_checkpoints()[-1], site.folder.all_checkpoints()[-2]

    state = newest.state_file.read_bytes()
    newest.state_file.unlink()
    newest.state_file.symlink_to(newest.state_file)  # the disk does not give it: ELOOP
    line = site.refused(75, "--resume")
    assert f"{newest.state_file}: the disk does not give it: Too many levels of symbolic links" in line
    assert {paths.folder.name for paths in site.folder.all_checkpoints()} == good

    newest.state_file.unlink()
    newest.state_file.write_bytes(state)
    weights = newest.read().weights
    altered = save({"weights": np.where(np.arange(weights.size) == 3, np.float32(np.nan), weights)})
    newest.weights_file.write_bytes(altered)
    head = json.loads(state)
    head["checksums"][newest.weights_file.name] = zlib.crc32(altered)
    newest.state_file.write_text(json.dumps(head))
    with ExitStack() as stack:
        again = site.start("--resume")
        stack.callback(again.destroy)
        again.wait_for(f"resumed at version {before.order[0]}")
        status = status_when(site.address, lambda _: True, "an answer")
        assert status.warnings[0].startswith(f"checkpoint {newest.folder.name} is damaged and was passed over: ")
        assert "weights is not finite" in status.warnings[0]

    for paths in site.folder.all_checkpoints():
        paths.weights_file.write_bytes(b"")
    line = site.refused(78, "--resume-or-create")
    assert f"{site.folder.checkpoints}: none of the checkpoints there is whole" in line
    assert site.folder.record().epoch == 2, "of three that were refused none began"


SLOW = """
import os, time
genuine = os.fsync
def fsync(descriptor):
    while os.path.exists({stall!r}):
        time.sleep(0.02)
    genuine(descriptor)
os.fsync = fsync
"""
KILLED = """
import os, signal
genuine = os.replace
def replace(source, target, **keywords):
    if str(target).endswith("run.json"):
        os.kill(os.getpid(), signal.SIGKILL)
    genuine(source, target, **keywords)
os.replace = replace
"""


def patched(tmp_path: Path, code: str) -> tuple[str, ...]:
    """A command that runs another one, in whose process this code has run first."""
    (tmp_path / "patch").mkdir()
    (tmp_path / "patch" / "sitecustomize.py").write_text(code)
    return ("env", f"PYTHONPATH={tmp_path / 'patch'}")


def test_a_disk_that_stands_still_costs_no_training(tmp_path: Path) -> None:
    stall = tmp_path / "stall"
    with daemons(tmp_path, patched(tmp_path, SLOW.format(stall=str(stall)))) as house:
        site = Site(house, tmp_path / "run")
        learner = site.start()
        site.play()
        site.saved()
        stall.touch()
        until(lambda: list(site.folder.checkpoints.glob(".*.partial")), "a checkpoint that hangs")
        begun = status_when(site.address, lambda _: True, "an answer")
        later = status_when(site.address, lambda status: status.version > begun.version + 50, "50 steps")
        assert later.checkpoint.version == begun.checkpoint.version
        assert later.checkpoint.error == ""
        stall.unlink()
        site.saved(more_than=begun.checkpoint.version or 0)
        stall.touch()
        until(lambda: list(site.folder.checkpoints.glob(".*.partial")), "another that hangs")
        learner.signal(signal.SIGTERM)
        learner.wait_for("stopped by a signal")
        stall.unlink()
        assert learner.wait() == 143
        newest = site.folder.newest()
        assert newest is not None
        assert newest.read().state["counters"]["version"] == newest.order[0] > begun.version


def test_a_first_start_that_is_killed_is_begun_again(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with daemons(tmp_path, patched(tmp_path, KILLED)) as house:
        learner = Site(house, run_dir).start("--resume-or-create")
        assert learner.wait() == -signal.SIGKILL
        assert (run_dir / "settings.toml").exists()
        assert not (run_dir / "run.json").exists()
    with daemons(tmp_path) as house:
        site = Site(house, run_dir)
        learner = site.start("--resume-or-create")
        assert status_when(site.address, lambda _: True, "an answer").epoch == 1
        learner.signal(signal.SIGTERM)
        assert learner.wait() == 143
