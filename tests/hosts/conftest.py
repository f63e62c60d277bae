"""Three hosts for the tests of one file, and a3cd on each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.host.addresses import Address
from common.host.security.access import LearnerEndpoint
from common.run.status import PeerStatus, RunStatus
from deploy.cli.observer import Observer
from tests.helpers.daemons import Daemons
from tests.helpers.daemons import daemons as some_daemons
from tests.helpers.waiting import until
from tests.hosts import network as networks
from tests.hosts.network import Host, Network

LEARNER = Address("10.77.0.1", 5555)
"""On the first host."""


@dataclass(frozen=True)
class Site:
    """Three hosts; `on[0]` starts a3cd on the first of them."""

    network: Network
    on: tuple[Daemons, ...]

    @property
    def hosts(self) -> tuple[Host, ...]:
        return self.network.hosts

    def status_when(
        self, good: Callable[[RunStatus], object], what: str, access: LearnerEndpoint | None = None
    ) -> RunStatus:
        """The first status of the run that is as wanted, seen from the second host."""
        with (
            self.hosts[1].inside(),
            Observer(access or LearnerEndpoint(LEARNER, insecure=True), ask_seconds=0.1) as observer,
        ):

            def look() -> RunStatus | None:
                status = observer.next(1.0)
                return status if status is not None and good(status) else None

            try:
                return until(look, what)
            except pytest.fail.Exception:
                print(*self.on, sep="\n")
                raise


def on_host(status: RunStatus, name: str) -> PeerStatus | None:
    """The actor there, if there is one."""
    return next((peer for peer in status.actors if peer.host == name), None)


def at_work(*hosts: str, gradients: int = 1) -> Callable[[RunStatus], bool]:
    """Whether an actor on each of these has given so many gradients since it joined."""
    return lambda status: (
        {peer.host for peer in status.actors if peer.gradients >= gradients} >= set(hosts)
        and len(status.actors) == len(hosts)
    )


@contextmanager
def hosts(folder: Path, *names: str) -> Iterator[Site]:
    """Hosts of these names, each with a folder of its name in `folder`."""
    with networks.network(*names) as network, ExitStack() as stack:
        folders = [folder / host.name for host in network.hosts]
        for each in folders:
            each.mkdir()
        yield Site(
            network,
            tuple(
                stack.enter_context(some_daemons(each, host.enter(each)))
                for host, each in zip(network.hosts, folders, strict=True)
            ),
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Skips where there can be none."""
    if why := networks.lacking():
        pytest.skip(why)
    with hosts(tmp_path_factory.mktemp("site"), "h1", "h2", "h3") as one:
        yield one
