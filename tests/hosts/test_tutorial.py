"""docs/tutorials/three-hosts.md, on hosts of its names."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from common.errors import EXIT_SIGINT
from common.host.security.access import LearnerEndpoint
from common.host.security.credential import Credential
from tests.helpers.daemons import Daemon
from tests.helpers.tutorial import Command, Reader, steps
from tests.hosts import network as networks
from tests.hosts import sshd
from tests.hosts.conftest import LEARNER, Site, hosts

_WHY = networks.lacking() or sshd.lacking()
pytestmark = [
    pytest.mark.long,
    pytest.mark.hosts,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(_WHY), reason=_WHY),
]
INVITATION = "'tcp://gpu-box:5555#...'"
LABS = ("lab-01", "lab-02")
CHEAPLY = {
    "--bind": "--set environment.step_seconds=0.01 --bind",
    "minimum=4": "minimum=2",
    "--slots 2": "--slots 1",
    "lab-01:2": "lab-01:1",
    "lab-02:2": "lab-02:1",
}
"""Half as many actors, which idle."""


def test_three_hosts(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with hosts(tmp_path, "gpu-box", *LABS) as site:
        head, *labs = site.hosts
        with sshd.servers(tuple(labs), head, tmp_path_factory.mktemp("sshd")):
            follow(site)


def follow(site: Site) -> None:
    aside = ("a3cd learner", "a3cd launcher")
    readers = {host.name: Reader(on, aside, dict(CHEAPLY)) for host, on in zip(site.hosts, site.on, strict=True)}
    page = [step for step in steps("three-hosts") if isinstance(step, Command)]
    new, *invite, init, learner = page[:5]
    accept, launch, accept_too, launch_too, *look, by_ssh, revoke, status = page[5:]

    def do(step: Command) -> Daemon:
        (daemon,) = readers[step.host].follow(step)
        return daemon

    do(new)
    for lab, step in zip(LABS, invite, strict=True):
        readers[lab].instead[INVITATION] = do(step).printed.removeprefix("a3cd actor ").strip()
    do(init)
    do(learner).wait_for("listens on")
    invitation = readers["lab-01"].instead[INVITATION].strip("'")
    way_in = LearnerEndpoint(LEARNER, Credential.from_invitation(invitation))
    launchers = [do(step) for step in (accept, launch, accept_too, launch_too)][1::2]

    def actors(*hosts: str, launchers: int) -> None:
        site.status_when(
            lambda status: (
                sorted(peer.host for peer in status.actors if peer.gradients) == sorted(hosts)
                and len(status.launchers) == launchers
            ),
            f"actors on {hosts}",
            way_in,
        )

    actors(*LABS, launchers=2)
    status_now, doctor = (do(step).printed for step in look)
    assert all(lab in status_now for lab in LABS)
    assert "answers: run" in doctor
    for launcher in launchers:
        launcher.signal(signal.SIGINT)
        assert launcher.wait() == EXIT_SIGINT
    do(by_ssh)
    actors(*LABS, launchers=1)
    do(revoke)
    actors("lab-01", launchers=1)
    assert "lab-01" in do(status).printed
