from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from simulation.settings import Costs, Host, Incident, Link
from tests.helpers.simulated import cluster_of, incidents

pytestmark = pytest.mark.slow

FAR = Link(delay=0.02, jitter=0.01, mbit=10.0, loss=0.01)


def test_it_trains_until_a_limit_is_reached() -> None:
    cluster, recorder = cluster_of()
    cluster.run()
    status = cluster.status()
    assert cluster.over and status.state == "finished"
    assert 4000 <= status.frames < 4200
    assert (status.actors_peak, status.stale, status.refused) == (3, 0, 0)
    assert recorder.newest is not None and recorder.newest.version == cluster.learner.steps > 0
    assert recorder.rows[-1]["frames"] == status.frames
    assert status.seconds == pytest.approx(cluster.queue.now, abs=0.01)


def test_the_same_settings_give_the_same_weights_to_the_last_bit_and_others_do_not() -> None:
    def weights(seed: int) -> tuple[bytes, float, int]:
        cluster, recorder = cluster_of(
            f"seed={seed}", hosts=[Host(slots=3), Host(name="far", slots=2, speed=0.7, local=False, link=FAR)], actors=5
        )
        cluster.run()
        assert recorder.newest is not None
        return recorder.newest.weights.tobytes(), cluster.queue.now, cluster.queue.happened

    assert weights(0) == weights(0)
    assert weights(0)[0] != weights(1)[0]


def test_actors_that_cost_nothing_else_play_as_fast_as_their_steps_take() -> None:
    costs = Costs(batch_step=0.01, environment_step=0.0, gradient=0.0, gradient_step=0.0, message=0.0)
    cluster, _ = cluster_of("limits.frames=0", "limits.seconds=11.3", costs=costs)
    cluster.run()
    expected = 3 * 2 * (11.3 - 1.3) / 0.01  # after start and preparation
    assert cluster.status().frames == pytest.approx(expected, rel=0.1)  # dummy steps between episodes do not count


def test_with_credit_an_overloaded_learner_does_not_see_old_gradients_and_without_it_does() -> None:
    costs = Costs(batch_step=0.01, optimizer_step=0.1)
    rules = ("exchange.coalesce=1", "limits.seconds=20", "staleness.refuse_factor=0", "limits.frames=0")

    def lag(credit: int) -> float:
        cluster, _ = cluster_of(f"exchange.credit={credit}", *rules, actors=8, costs=costs)
        cluster.run()
        assert cluster.status().learner_busy > 0.8
        return cluster.status().lag_mean

    assert lag(1) < 20
    assert lag(0) > 60


def test_no_two_actors_start_at_the_same_moment() -> None:
    cluster, _ = cluster_of("limits.frames=0", actors=5, costs=Costs(actor_start=10.0))
    begun = {}
    while len(begun) < 5:
        cluster.queue.step()
        begun |= dict.fromkeys(cluster.actors.keys() - begun, cluster.queue.now)
    times = sorted(begun.values())
    assert times[0] >= 8.0 and times[-1] <= 12.0 + 1.0
    assert all(later - earlier > 0.01 for earlier, later in pairwise(times))


def test_a_host_of_half_the_speed_plays_half_as_many_frames() -> None:
    hosts = [Host(name="fast", slots=1), Host(name="slow", slots=1, speed=0.5)]
    cluster, _ = cluster_of("limits.frames=0", "limits.seconds=12", actors=2, hosts=hosts)
    cluster.run()
    frames = {actor.name: actor.frames for actor in cluster.status().actors}
    assert frames["slow-0"] / frames["fast-0"] == pytest.approx(0.5, abs=0.1)


def test_actors_come_and_go_by_schedule_and_the_launcher_replaces_one_that_crashed() -> None:
    happenings = incidents((3.0, "crash", "here-1"), (4.0, "join", ""), (8.0, "leave", "joined"))
    cluster, recorder = cluster_of("limits.frames=0", "limits.seconds=12", actors=2, incidents=happenings)
    cluster.run(7.0)
    assert sorted(name for name, actor in cluster.actors.items() if actor.exit_code is None) == [
        "here-0",
        "here-1",
        "joined",
    ]
    assert cluster.launchers["here"].core.report(cluster.queue.now).failed == 1
    cluster.run()
    assert cluster.actors["joined"].exit_code == 0
    assert any("joined" in text and "left" in text for _, text in recorder.lines)
    assert cluster.status().actors_peak == 3


def test_two_that_join_without_a_name_have_two_names() -> None:
    happenings = incidents((3.0, "join", ""), (3.0, "join", ""))
    cluster, _ = cluster_of("limits.frames=0", "limits.seconds=8", actors=1, incidents=happenings)
    cluster.run()
    assert len(cluster.actors) == cluster.status().actors_peak == 3


def test_a_learner_expires_whoever_is_cut_off_and_lets_it_in_again() -> None:
    happenings = incidents((3.0, "partition", "here-0"), (60.0, "heal", "here-0"))
    rules = ("limits.frames=0", "limits.seconds=75", "environment.step_seconds=0.05")
    cluster, recorder = cluster_of(*rules, actors=2, incidents=happenings)
    cluster.run(50.0)
    assert cluster.status().actors_now == 1
    assert any("silent" in text for _, text in recorder.lines)
    cluster.run()
    assert cluster.learner.core.run.peers.actors == 2


def test_a_learner_and_an_actor_may_stand_still() -> None:
    stalls = [
        Incident(at=2.0, kind="stall", who="here-0", seconds=2.0),
        Incident(at=3.0, kind="learner-stall", seconds=5.0),
    ]
    cluster, _ = cluster_of("limits.frames=0", "limits.seconds=12", actors=2, incidents=stalls)
    cluster.run(7.9)
    before = cluster.learner.core.run.stats.counters.frames
    cluster.run()
    assert cluster.status().frames > before
    assert cluster.status().actors_now == 2


@pytest.mark.parametrize("kind", ["trajectories", "actions"])
def test_the_other_exchanges_train_too(kind: str) -> None:
    cluster, recorder = cluster_of(f"exchange.kind={kind}", "algorithm.rollout_length=4", "limits.frames=1000")
    cluster.run(100.0)
    assert cluster.status().state == "finished"
    assert recorder.newest is not None and np.isfinite(recorder.newest.weights).all()


def test_the_number_of_actors_follows_the_policy() -> None:
    rules = ("scaling.policy=episode-duration", "scaling.maximum=4", "scaling.episodes_between=10")
    cluster, _ = cluster_of(
        *rules, "scaling.thresholds_relative=[0.5]", "scaling.additions=[1]", "limits.frames=6000", actors=1
    )
    cluster.run()
    assert cluster.status().actors_peak == 4


def test_episode_duration_takes_no_actor_away_from_a_fleet_that_changes() -> None:
    rules = ("scaling.policy=episode-duration", "scaling.maximum=4", "scaling.episodes_between=10")
    happenings = incidents((8.0, "crash", ""), (12.0, "partition", "here"), (16.0, "heal", "here"), (18.0, "join", ""))
    cluster, _ = cluster_of(
        *rules,
        *("scaling.thresholds_relative=[0.5]", "scaling.additions=[1]", "limits.frames=8000"),
        actors=1,
        incidents=happenings,
    )
    wanted = []
    while not cluster.over:
        cluster.run(cluster.queue.now + 1.0)
        wanted.append(cluster.learner.core.run.stats.decision.wanted)
    assert wanted == sorted(wanted)
    assert wanted[-1] == 4
    assert cluster.status().actors_peak == 5, "one was started by hand"


def test_it_says_when_no_actor_will_ever_play() -> None:
    cluster, _ = cluster_of("limits.frames=0", "limits.seconds=100")
    assert cluster.hopeless == ""
    cluster.launchers["here"].core._crash_loops[0].why = "they crash"
    assert cluster.hopeless == "actors end at once"


def test_a_learner_that_crashed_goes_on_from_its_checkpoint_in_a_new_epoch() -> None:
    crash = [Incident(at=8.0, kind="learner-crash", seconds=2.0)]
    cluster, recorder = cluster_of("checkpoint.every_seconds=3", incidents=crash)
    cluster.run(8.5)
    assert not cluster.learner.alive
    assert recorder.newest is not None
    version = recorder.newest.version
    cluster.run(10.0)
    counters = cluster.learner.core.run.stats.counters
    assert cluster.learner.core.run.spec.epoch == 2
    assert counters.version == version > 0
    cluster.run()
    assert cluster.status().state == "finished"
    assert cluster.learner.steps > 0
