"""A learner on one host, a launcher on another where Slurm runs: the array of its actors grows, is found, shrinks."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from common import presets
from common.errors import EXIT_SIGINT, EXIT_SIGTERM
from common.status import RunStatus
from tests.helpers.daemons import Daemon, terminate, until
from tests.hosts import slurm as slurms
from tests.hosts.conftest import LEARNER, Site
from tests.hosts.slurm import Slurm

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

SLOTS = 4
PACED = ("environment.step_seconds=0.02", "limits.until_return=1000.0", "scaling.interval_seconds=0.2")
GROWING = (
    *("scaling.policy='episode-duration'", "scaling.minimum=1", "scaling.maximum=3", "scaling.busy_limit=1.0"),
    *("scaling.thresholds_seconds=[0.001]", "scaling.additions=[2]", "scaling.episodes_between=10"),
)
FIXED = ("scaling.policy='fixed'", "scaling.minimum=1")


@pytest.fixture(scope="module")
def cluster(site: Site) -> Iterator[Slurm]:
    """The second host; everybody's launcher and actors end with it."""
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
    """Whether so many actors of the one launcher give gradients, and it knows of just these."""
    return lambda status: (
        status.epoch == epoch
        and [peer.launcher for peer in status.peers if peer.gradients] == ["lab"] * count
        and [(fleet.running, fleet.starting) for fleet in status.fleets] == [(count, 0)]
    )


def test_the_array_grows_is_found_again_and_shrinks(site: Site, cluster: Slurm) -> None:
    head = learner(site, *GROWING)
    first = launcher(site)
    status = site.status_when(at_work(3), "three actors at work")
    assert {(peer.name, peer.host) for peer in status.peers} == {(f"lab-{slot}", "h2") for slot in range(3)}
    array = cluster.tasks()
    assert array == {"1_0": "RUNNING", "2_1": "RUNNING", "2_2": "RUNNING"}, "an array for each growth"
    assert status.fleets[0].why == ""

    assert terminate(first) == [EXIT_SIGTERM]
    site.status_when(lambda status: not status.fleets, "no launcher")
    second = launcher(site)
    found = site.status_when(at_work(3), "three actors found")
    assert cluster.tasks() == array, "none was started, none ended"
    assert {peer.pid for peer in found.peers} == {peer.pid for peer in status.peers}

    assert terminate(head) == [EXIT_SIGTERM]
    head = learner(site, *FIXED, resume=True)
    site.status_when(at_work(1, epoch=2), "one actor left")
    assert cluster.tasks() == {"1_0": "RUNNING"}
    assert head.said == ""
    second.signal(signal.SIGINT)
    assert second.wait() == EXIT_SIGINT
    until(lambda: not cluster.tasks(), "no task left")
    assert terminate(head) == [EXIT_SIGTERM]
