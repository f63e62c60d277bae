"""A learner on one host, a launcher on another where Slurm runs: the array of its actors grows, is found, shrinks."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from common.errors import EXIT_SIGINT, EXIT_SIGTERM
from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.run import presets
from common.run.folder import RunFolder
from common.run.status import RunStatus
from deploy.backends.base import Ended
from deploy.backends.runner import run
from deploy.backends.slurm import SlurmBackend
from deploy.children import a3cd
from tests.helpers.daemons import Daemon, terminate
from tests.helpers.programs import program
from tests.helpers.waiting import until
from tests.hosts import slurm as slurms
from tests.hosts.conftest import LEARNER, Site
from tests.hosts.slurm import Slurm

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

SLOTS = 4
PACED = ("environment.step_seconds=0.02", "limits.until_return=1000.0", "scaling.interval_seconds=0.2")
GROWING = (
    *("scaling.policy='episode-duration'", "scaling.minimum=1", "scaling.maximum=3", "scaling.busy_limit=1.0"),
    *(
        "scaling.unit='seconds'",
        "scaling.thresholds_seconds=[0.001]",
        "scaling.additions=[2]",
        "scaling.episodes_between=10",
    ),
)
FIXED = ("scaling.policy='fixed'", "scaling.minimum=1")
SCRIPT = Path(__file__).parents[2] / "deploy" / "slurm" / "actors.sbatch"
FATES = """#!/bin/sh
case $SLURM_ARRAY_TASK_ID in
    0) echo "error: no environment 'x'" >&2; exit 78 ;;
    1) kill -KILL $$ ;;
    # Slurm may end the sleep before it asks the shell, which is not to be over by that.
    *) trap 'echo asked to leave; exit 143' TERM; echo begun; while :; do sleep 1000 & wait; done ;;
esac
"""


@pytest.fixture
def cluster(site: Site) -> Iterator[Slurm]:
    """The second host: whatever was started there ends with it."""
    if why := slurms.lacking():
        pytest.skip(why)
    with slurms.slurm(site.hosts[1], cpus=SLOTS) as one:
        yield one


def learner(site: Site, *settings: str, resume: bool = False) -> Daemon:
    first = site.on[0]
    config = first.config(presets.show("CartPole-v1").text)
    changed = [word for setting in (*PACED, *settings) for word in ("--set", setting)]
    return first.start(
        *("learner", "--config", config, "--bind", LEARNER, "--insecure", "--run-dir", "run", *changed),
        *(["--resume"] if resume else []),
    )


def launcher(site: Site) -> Daemon:
    return site.on[1].start(
        *("launcher", LEARNER, "--insecure", "--name", "lab", "--slots", SLOTS, "--start-with", "slurm")
    )


def at_work(count: int, epoch: int = 1) -> Callable[[RunStatus], bool]:
    """Whether so many actors of the one launcher give gradients and there are no others, as it says too."""
    return lambda status: (
        status.epoch == epoch
        and [peer.launcher for peer in status.actors] == ["lab"] * count
        and all(peer.gradients for peer in status.actors)
        and [(fleet.running, fleet.starting) for fleet in status.launchers] == [(count, 0)]
    )


@pytest.mark.long
def test_the_array_grows_is_found_again_and_shrinks(site: Site, cluster: Slurm) -> None:
    head = learner(site, *GROWING)
    first = launcher(site)
    status = site.status_when(at_work(3), "three actors at work")
    assert {(peer.name, peer.host) for peer in status.actors} == {(f"lab-{slot}", "h2") for slot in range(3)}
    tasks = cluster.tasks()
    assert tasks == dict.fromkeys(("1_0", "2_1", "2_2"), "RUNNING"), "one array at first, one for what was added"

    assert terminate(first) == [EXIT_SIGTERM]
    site.status_when(lambda status: not status.launchers, "no launcher")
    second = launcher(site)
    found = site.status_when(at_work(3), "three actors found")
    assert cluster.tasks() == tasks
    assert {peer.pid for peer in found.actors} == {peer.pid for peer in status.actors}

    assert terminate(head) == [EXIT_SIGTERM]
    head = learner(site, *FIXED, resume=True)
    site.status_when(at_work(1, epoch=2), "one actor left")
    assert cluster.tasks() == {"1_0": "RUNNING"}
    second.signal(signal.SIGINT)
    assert second.wait() == EXIT_SIGINT
    until(lambda: not cluster.tasks(), "no task left")
    assert terminate(head) == [EXIT_SIGTERM]


def saying(text: bytes, folder: Path) -> int:
    """How many of the tasks that were not to fail wrote this line."""
    return sum(text in file.read_bytes().splitlines() for file in folder.glob("fates-[2-9].log"))


def test_it_says_how_tasks_ended_and_which_wait(site: Site, cluster: Slurm, tmp_path: Path) -> None:
    backend = SlurmBackend("fates", FATES, run=partial(run, *site.hosts[1].enter(tmp_path)))
    backend.start(range(SLOTS + 3))
    others = frozenset(range(2, SLOTS + 3))
    until(lambda: backend.observe().alive == others, "the end of two tasks")
    assert backend.exit_status(0) == Ended(0, 78, "slurm task 1_0: FAILED (NonZeroExitCode)\nerror: no environment 'x'")
    assert backend.exit_status(1).exit_code == 137
    until(lambda: len(backend.observe().starting) == 1, "one task waiting")
    assert sorted(cluster.tasks().values()) == ["PENDING", *["RUNNING"] * SLOTS]
    until(lambda: saying(b"begun", tmp_path) == SLOTS, "all others at work")
    backend.stop(sorted(others))
    until(lambda: not backend.observe().alive, "the end of all")
    assert [backend.exit_status(slot) for slot in others] == [Ended(slot, 0) for slot in others]
    assert saying(b"asked to leave", tmp_path) >= SLOTS, "that which waited may have begun as others left"
    assert cluster.tasks() == {}


def test_the_script_for_a_fixed_number_of_actors(site: Site, cluster: Slurm, tmp_path: Path) -> None:
    programs = program(tmp_path, "a3cd", "import sys; print(sys.argv[1:])").parent
    path = f"PATH={programs}:{os.defpath}"
    line = ["sbatch", f"--chdir={tmp_path}", "--array=3,7", str(SCRIPT), "tcp://gpu-box:5555", "--insecure"]
    cluster.ask("env", path, *line)

    def said() -> list[str]:
        return [file.read_text() for file in sorted(tmp_path.glob("a3cd-actor-1_*.log"))]

    expected = [f"{['actor', 'tcp://gpu-box:5555', '--name', f'h2-1-{task}', '--insecure']}\n" for task in (3, 7)]
    until(lambda: said() == expected, "two tasks with names of their own")


def test_a_learner_as_a_job_and_several_actors_in_one(site: Site, cluster: Slurm, tmp_path: Path) -> None:
    config = site.on[1].config(presets.show("CartPole-v1").text)
    address = Address(site.hosts[1].address, 5555)

    def job(*words: object) -> None:
        line = shlex.join(["exec", *a3cd(*map(str, words), "--insecure")])
        cluster.ask("sbatch", f"--chdir={tmp_path}", "--wrap", line)

    paced = [word for setting in (*PACED, "scaling.minimum=2") for word in ("--set", setting)]
    folder = tmp_path / "run"
    job("learner", "--config", config, "--bind", address, "--run-dir", folder, "--resume-or-create", *paced)
    job("launcher", address, "--name", "lab", "--slots", 2)
    site.status_when(at_work(2), "two actors of one job", LearnerEndpoint(address, insecure=True))
    assert sorted(cluster.tasks().values()) == ["RUNNING", "RUNNING"]
    cluster.ask("scancel", "--user=root")
    until(lambda: not cluster.tasks(), "no job left")
    assert RunFolder(folder).summary()["state"] == "stopped", "Slurm's SIGTERM reached the learner"
