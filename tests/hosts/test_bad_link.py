"""A host behind a slow cable that loses packets, and is cut: it trains on, and every gradient counts once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.errors import EXIT_SIGTERM
from common.run import presets
from common.run.folder import RunFolder
from common.run.status import RunStatus
from tests.common.rl.environments.numbered_environments import LENGTH, split
from tests.helpers.daemons import Daemon, terminate
from tests.helpers.waiting import until
from tests.hosts import network as networks
from tests.hosts.conftest import LEARNER, Site, at_work, on_host
from tests.hosts.wire import Wire

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]

SETTINGS = """
[environment]
id = "numbered_environments:Numbered-v0"
num_envs = 1
step_seconds = 0.01
reward_clip = 1.0
[network]
hidden = [16] # a gradient is one packet
[algorithm]
whole_episodes = true # and one episode, each of which the checkpoint tells
[exchange]
codec = "none"
accumulate = 1
heartbeat_seconds = 0.5
expiry_seconds = 5.0
[staleness]
refuse_factor = 0.0
[checkpoint]
every_seconds = 0.0
[limits]
window = 100000
"""
GRADIENT_BYTES = 131 * 4
"""Of this network, without the message's header; nothing else that an actor sends once it plays is as large."""
CUT_SECONDS = 20.0


@pytest.fixture(scope="module")
def wire(site: Site) -> Iterator[Wire]:
    """The third host's cable."""
    if why := networks.lacking_wires():
        pytest.skip(why)
    with site.network.wire(site.hosts[2], seed=1) as one:
        one.set(delay_seconds=0.05, mbit=10.0, loss=0.01)
        yield one


@dataclass
class Crew:
    """All at work; the far actor is behind the bad cable."""

    learner: Daemon
    near: Daemon
    far: Daemon
    run_dir: Path

    def end(self) -> None:
        """Actors first: nothing is under way when the learner ends."""
        assert terminate(self.near, self.far) == [EXIT_SIGTERM] * 2
        assert terminate(self.learner) == [EXIT_SIGTERM]


def start(site: Site, name: str, settings: str, *options: object) -> Crew:
    run_dir = site.on[0].folder / name
    config = site.on[0].config(settings, f"{name}.toml")
    learner = site.on[0].start(
        *("learner", "--config", config, "--bind", LEARNER, "--insecure", "--run-dir", run_dir, *options)
    )
    near, far = (
        daemons.start("actor", LEARNER, "--insecure", "--allow-module", "numbered_environments")
        for daemons in site.on[1:]
    )
    return Crew(learner, near, far, run_dir)


def test_it_trains_on_over_a_slow_cable_that_loses_packets(site: Site, wire: Wire) -> None:
    """With messages of many packets: 17,000 parameters."""
    crew = start(
        *(site, "cartpole", presets.show("CartPole-v1").text),
        *("--set", "network.hidden=[128, 128]", "--set", "environment.step_seconds=0.005"),
        *("--set", "limits.until_return=1000.0"),
    )
    before = site.status_when(at_work("h2", "h3"), "both hosts at work")
    after = site.status_when(at_work("h2", "h3", gradients=30), "30 gradients of each")
    assert after.frames > before.frames
    until(lambda: wire.count("lost"), "a packet that was lost")
    assert (after.refused, after.warnings) == (0, [])
    crew.end()


@pytest.mark.long
def test_it_rejoins_by_itself_after_a_cut_and_each_gradient_is_applied_once(site: Site, wire: Wire) -> None:
    crew = start(site, "numbered", SETTINGS)
    site.status_when(at_work("h2", "h3", gradients=20), "both hosts at work")
    wire.set(loss=0.0, snap=GRADIENT_BYTES)  # the learner gets one more gradient, whose answer is lost
    until(lambda: wire.is_cut, "a gradient on the cable")
    begun = time.monotonic()
    crew.learner.wait_for("has been silent for 5 s: it is removed")
    alone = site.status_when(at_work("h2"), "one host left")
    time.sleep(max(0.0, begun + CUT_SECONDS - time.monotonic()))
    wire.mend()
    wire.set(loss=0.01)

    def back(status: RunStatus) -> bool:
        far = on_host(status, "h3")
        return far is not None and far.gradients >= 20

    after = site.status_when(back, "the lost host's actor back at work")
    assert after.version > alone.version, "the other host went on"
    assert [peer.pid for peer in after.actors if peer.host == "h3"] == [crew.far.pid]
    assert after.duplicates >= 1, "the gradient whose answer was lost came again"
    crew.end()
    check_each_gradient_was_applied_once(crew.run_dir)


def check_each_gradient_was_applied_once(run_dir: Path) -> None:
    """By the returns of the episodes in the last checkpoint: each tells its host and its number there."""
    newest = RunFolder(run_dir).newest()
    assert newest is not None
    counters = newest.read().state["counters"]
    numbers: dict[str, list[int]] = {"h2": [], "h3": []}
    for episode_return, length, _ in counters["recent"]:
        assert length == LENGTH
        host, number = split(episode_return)
        numbers[host].append(number)
    for found in numbers.values():
        assert sorted(found) == list(range(1, len(found) + 1))
    assert min(map(len, numbers.values())) >= 40
    played = sum(map(len, numbers.values()))
    assert (counters["episodes"], counters["gradients"], counters["frames"]) == (played, played, played * LENGTH)
