"""A host behind a cable on which weights, and each gradient, take longer than a peer may be silent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from common.errors import EXIT_SIGTERM
from tests.helpers.daemons import terminate
from tests.hosts import network as networks
from tests.hosts.conftest import LEARNER, Site, at_work
from tests.hosts.wire import Wire

pytestmark = [pytest.mark.long, pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(300)]

SETTINGS = """
[environment]
id = "CartPole-v1"
num_envs = 1
[network]
hidden = [1000, 1000]
[exchange]
codec = "int8"
entropy_coder = "none"
accumulate = 1
heartbeat_seconds = 0.5
expiry_seconds = 5.0
[checkpoint]
every_seconds = 0.0
"""
MBIT = 1.2
"""Two megabytes of weights take 13 s, one of a gradient 7 s."""


@pytest.fixture(scope="module")
def wire(site: Site) -> Iterator[Wire]:
    """The third host's cable."""
    if why := networks.lacking_wires():
        pytest.skip(why)
    with site.network.wire(site.hosts[2], seed=1) as one:
        one.set(delay_seconds=0.02, mbit=MBIT)
        yield one


def test_an_actor_joins_and_trains_though_each_message_takes_longer_than_its_expiry(site: Site, wire: Wire) -> None:
    run_dir = site.on[0].folder / "slow"
    config = site.on[0].config(SETTINGS)
    learner = site.on[0].start("learner", "--config", config, "--bind", LEARNER, "--insecure", "--run-dir", run_dir)
    learner.wait_for("listens on")
    actor = site.on[2].start("actor", LEARNER, "--insecure")
    actor.wait_for("codec int8")
    first = site.status_when(at_work("h3"), "the first gradient over the slow cable")
    after = site.status_when(at_work("h3", gradients=2), "another one")
    print(learner, actor)
    whole = 2 * after.parameters + 1000
    assert after.weight_bytes <= (1 + after.version) * whole, "one for the join, and the broadcasts"
    assert (after.duplicates, after.refused, after.stale, after.warnings) == (0, 0, 0, [])
    assert after.actors[0].pid == first.actors[0].pid == actor.pid
    for daemon in (learner, actor):
        assert "silent" not in daemon.said
    assert learner.said.count(" joined") == 1, learner
    assert terminate(actor) == [EXIT_SIGTERM]
    assert terminate(learner) == [EXIT_SIGTERM]
