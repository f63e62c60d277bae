from __future__ import annotations

from simulation.settings import Host, Incident
from tests.helpers.simulated import cluster_of

ENDLESS = ("limits.frames=0", "limits.seconds=200")


def test_it_runs_as_many_actors_as_are_ordered() -> None:
    cluster, _ = cluster_of(*ENDLESS, actors=3)
    launcher = cluster.launchers["here"]
    cluster.run(0.5)
    assert list(launcher.actors.values()) == [None] * 3, "their processes start"
    cluster.run(3.0)
    assert sorted(cluster.actors) == ["here-0", "here-1", "here-2"]
    [peer] = [peer for _, peer in cluster.learner.core.run.peers.role("launcher")]
    assert peer.report is not None and (peer.report.running, peer.report.slots) == (3, 3)


def test_one_that_ends_is_started_again_under_its_name() -> None:
    cluster, _ = cluster_of(*ENDLESS, actors=2)
    cluster.run(3.0)
    first = cluster.actors["here-1"]
    first.kill()
    cluster.run(6.0)
    assert cluster.actors["here-1"] is not first
    assert cluster.actors["here-1"].exit_code is None
    assert cluster.status().actors_now == 2


def test_at_the_end_of_a_run_its_actors_and_then_it_leave() -> None:
    cluster, _ = cluster_of("limits.frames=0", "limits.seconds=5", actors=2)
    cluster.run()
    cluster.queue.run(15.0)
    assert {actor.exit_code for actor in cluster.actors.values()} == {0}
    assert cluster.launchers["here"].gone


def test_one_that_hangs_is_replaced() -> None:
    cluster, _ = cluster_of(*ENDLESS, "exchange.expiry_seconds=5", actors=2)
    cluster.run(3.0)
    hung = cluster.actors["here-0"]
    hung.stall(1000.0)
    cluster.run(60.0)
    assert cluster.actors["here-0"] is not hung
    assert cluster.status().actors_now == 2


def test_fewer_are_ordered_and_one_leaves() -> None:
    cluster, _ = cluster_of(*ENDLESS, actors=2)
    cluster.run(3.0)
    cluster.launchers["here"].core.wanted = 1
    cluster.run(4.0)
    assert sorted(actor.exit_code is None for actor in cluster.actors.values()) == [False, True]


def test_one_that_was_killed_is_followed_by_one_that_finds_its_actors_and_stops_those_beyond_its_slots() -> None:
    crash = Incident(at=3.0, kind="launcher-crash", who="lab", seconds=2.0, slots=2)
    cluster, _ = cluster_of(*ENDLESS, actors=3, hosts=[Host(name="lab", slots=3)], incidents=[crash])
    cluster.run(4.0)
    before = dict(cluster.actors)
    assert cluster.launchers["lab"].gone
    assert [actor.exit_code for actor in before.values()] == [None] * 3, "they outlive it"
    cluster.run(10.0)
    assert cluster.actors == before, "none is started anew"
    assert {name: actor.exit_code for name, actor in before.items()} == {"lab-0": None, "lab-1": None, "lab-2": 0}
    cluster.actors["lab-1"].kill()
    cluster.run(20.0)
    assert cluster.actors["lab-1"] is not before["lab-1"], "it looks after those that it found"
    assert cluster.status().actors_now == 2
