from __future__ import annotations

import pytest

from simulation.cluster import Cluster
from simulation.recorders import MemoryRecorder
from simulation.settings import Host, Link, Relay
from tests.helpers.simulated import cluster_of, incidents

ENDLESS = ("limits.frames=0", "limits.seconds=200")
SITE = Host(name="lab", slots=3, local=False, link=Link(delay=0.01), relay=Relay(mbit=100, link=Link(delay=2e-4)))


def behind_a_relay(*assignments: str, **world: object) -> tuple[Cluster, MemoryRecorder]:
    return cluster_of(*(assignments or ENDLESS), hosts=[SITE], **world)


def frames(cluster: Cluster) -> int:
    return cluster.status().frames


def test_the_learner_knows_a_relay_and_the_actors_behind_it() -> None:
    cluster, _ = behind_a_relay()
    cluster.run(10.0)
    status = cluster.status()
    assert [(one.name, one.actors) for one in status.relays] == [("lab", 3)]
    assert status.actors_now == 3
    assert status.frames > 0
    assert cluster.relays["lab"].published > 0
    assert {actor.core.state for actor in cluster.actors.values()} == {"working"}


def test_at_the_end_of_a_run_its_actors_and_then_it_leave() -> None:
    cluster, _ = behind_a_relay("limits.frames=4000")
    cluster.run()
    assert cluster.status().frames >= 4000
    cluster.queue.run(cluster.queue.now + 15.0)
    assert {actor.exit_code for actor in cluster.actors.values()} == {0}
    assert cluster.relays["lab"].exit_code == 0


def test_the_same_seed_gives_the_same_weights() -> None:
    found = []
    for _ in range(2):
        cluster, recorder = behind_a_relay("limits.frames=2000")
        cluster.run()
        found.append((cluster.queue.happened, recorder.rows[-1]))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["relay-crash", "learner-crash"])
def test_after_a_crash_on_either_side_the_run_goes_on(kind: str) -> None:
    crash = incidents((5.0, kind, ""))
    cluster, _ = behind_a_relay(incidents=crash)
    cluster.run(8.0)
    before = frames(cluster)
    cluster.run(20.0)
    assert frames(cluster) > before
    assert cluster.status().actors_now == 3
    assert {actor.exit_code for actor in cluster.actors.values()} == {None}


def test_one_that_crashes_again_before_it_is_back_comes_back_once() -> None:
    cluster, _ = behind_a_relay()
    cluster.run(5.0)
    first = cluster.relays["lab"]
    cluster.restart_relay("lab", after=1.0)
    cluster.restart_relay("lab", after=2.0)
    cluster.run(6.5)
    second = cluster.relays["lab"]
    assert second is not first
    cluster.run(20.0)
    assert cluster.relays["lab"] is second
    assert cluster.status().actors_now == 3


@pytest.mark.parametrize("who", ["lab", "lab-1", ""])
def test_what_was_cut_off_takes_part_again(who: str) -> None:
    cluster, _ = behind_a_relay(incidents=incidents((5.0, "partition", who), (9.0, "heal", who)))
    cluster.run(8.9)
    before = frames(cluster)
    cluster.run(25.0)
    assert frames(cluster) > before
    assert cluster.status().actors_now == 3
