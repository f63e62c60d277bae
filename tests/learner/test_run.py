from __future__ import annotations

from dataclasses import replace

import pytest

from common.rl.episode import Episode
from common.settings.exchanges import MOST_SUMMED
from common.wire.frames import pack
from common.wire.messages import MAX_EVALUATED, Evaluation, Hello, SiteReport
from learner.run import ACTORS_COUNTED, ACTORS_NAMED, HEADER_BYTES, Run
from learner.run_stats import Counters
from tests.helpers.run import gradient_of, hello_of, run_of, settings_of, spec_of


def played() -> Run:
    run = run_of(settings_of("limits.frames=100", "limits.episodes=5"), counters=Counters(frames=0), now=100.0)
    peer, _ = run.peers.join(b"x", hello_of("x"), 100.0)
    run.stats.busy.working(101.0, 1.0)
    header = gradient_of(episodes=[(1.0, 10, 0.5)], statistics={"entropy": 0.5})
    peer.claimed_steps = header.steps
    run.stats.played(101.0, peer, header)
    run.stats.lagged(101.0, peer, 2)
    run.stats.stepped({}, 0)
    run.stats.applied(peer, header.statistics)
    return run


def test_the_status_of_a_whole_run_is_over_the_whole_run() -> None:
    run = played()
    recent, whole = run.status(200.0), run.status(200.0, whole_run=True)
    assert (recent.learner_busy, whole.learner_busy) == (0.0, pytest.approx(0.01))
    assert (whole.frames_left, whole.episodes_left, whole.seconds_left, whole.goal) == (80, 4, None, None)
    assert (whole.actors_now, whole.lag_mean, whole.lag_p95) == (1, 2.0, 2.0)
    assert not whole.reached
    run.stats.state = "reached"
    assert run.status(200.0).reached


def test_a_row_of_metrics_has_the_figures_of_the_status_and_the_losses() -> None:
    run = played()
    row, status = run.metrics(102.0), run.status(102.0)
    assert row.pop("entropy") == status.losses["entropy"] == 0.5
    assert row.pop("actors") == status.actors_now == 1
    assert row.pop("raw") == {"entropy": 0.5}
    (actor,) = status.actors
    assert row.pop("actor_frames_per_second") == {"x": actor.frames_per_second}
    paces = [row.pop(f"actor_frames_per_second_{which}") for which in ("least", "median", "most")]
    assert paces == [actor.frames_per_second] * 3
    assert row == {name: getattr(status, name) for name in row}
    assert (row["frames"], row["mean_return"]) == (20, 1.0)


@pytest.mark.parametrize("actors", [3, ACTORS_NAMED, ACTORS_NAMED + 1, ACTORS_COUNTED + 5])
def test_a_row_names_a_few_actors_and_tells_the_spread_of_many(actors: int) -> None:
    run = run_of(settings_of(), now=100.0)
    assert not [name for name in run.metrics(100.0) if name.startswith("actor_")], "nobody plays"
    for number in range(actors):
        peer, _ = run.peers.join(str(number).encode(), hello_of(f"x{number}"), 100.0)
        run.stats.played(101.0, peer, gradient_of(steps=5 * number))
        run.stats.lagged(101.0, peer, 0)
    run.peers.join(b"idle", hello_of("idle"), 100.0)
    row = run.metrics(105.0)
    counted = min(actors, ACTORS_COUNTED)
    assert row["actor_frames_per_second_least"] == 0.0
    assert row["actor_frames_per_second_median"] == pytest.approx(counted // 2)
    assert row["actor_frames_per_second_most"] == pytest.approx(counted - 1)
    assert len(row.get("actor_frames_per_second", {})) == (actors if actors <= ACTORS_NAMED else 0)


def test_the_raw_losses_are_the_last_ones_that_came() -> None:
    run = played()
    peer = run.peers.role("actor")[0][1]
    run.stats.applied(peer, {"entropy": 0.25, "kl": float("nan")})
    run.stats.applied(peer, {})
    row = run.metrics(102.0)
    assert row["raw"] == {"entropy": 0.25}
    assert 0.25 < row["entropy"] < 0.5, "smoothed"


def test_actors_of_neighbouring_runs_share_no_seed() -> None:
    specs = [spec_of(settings_of(f"seed={seed}")) for seed in range(3)]
    assert len({spec.actor_seed(ordinal) for spec in specs for ordinal in range(1000)}) == 3000


def test_after_a_restart_actors_have_seeds_that_none_had_before() -> None:
    specs = [replace(spec_of(settings_of(f"seed={seed}")), epoch=epoch) for seed in (0, 1) for epoch in (1, 2, 3)]
    seeds = [spec.actor_seed(ordinal) for spec in specs for ordinal in range(1000)]
    assert len(set(seeds)) == 6000
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seeds[:3] == [0, 1, 2]


@pytest.mark.parametrize("counted", [0, 500])
def test_the_longest_header_of_an_actor_has_room(counted: int) -> None:
    small = ("algorithm.rollout_length=100", "environment.num_envs=8", "exchange.accumulate=4")
    spec = spec_of(settings_of(*small), counted=counted)
    steps = 4 * 100 * 8
    moments = [(10**9, [1 / 3] * counted, [1 / 3] * counted)] * (4 if counted else 0)
    longest = gradient_of(
        2**63 - 1,
        2**63 - 1,
        steps=steps,
        count=4,
        episodes=[(1 / 3, 10**9, 1 / 3)] * steps,
        moments=moments,
        statistics={f"{number:0>100}": 1 / 3 for number in range(64)},
    )
    assert len(pack(longest)) < spec.header_bytes


def test_the_longest_evaluation_has_room() -> None:
    episodes = [Episode(1 / 3, 10**9, 1 / 3)] * MAX_EVALUATED
    longest = Evaluation(run="r" * 128, epoch=2**63 - 1, version=2**63 - 1, episodes=episodes)
    assert len(pack(longest)) < HEADER_BYTES


def test_without_moments_a_header_is_short() -> None:
    few = settings_of("exchange.accumulate=1", "algorithm.rollout_length=5", "environment.num_envs=1")
    assert HEADER_BYTES < spec_of(few).header_bytes < HEADER_BYTES + 500
    most = Hello(
        protocol=2,
        role="actor",
        name="\U0001f427" * 128,
        incarnation="\U0001f427" * 128,
        host="\U0001f427" * 128,
        pid=2**63 - 1,
        versions={f"{number:0>128}": "1" * 128 for number in range(32)},
        codecs=["n" * 128] * 64,
    )
    assert len(pack(most)) < HEADER_BYTES


def test_the_network_of_the_status_tells_whether_it_is_recurrent() -> None:
    told = [
        run_of(settings_of("network.kind='dense'", f"network.lstm={units}")).status(0.0).network for units in (0, 8)
    ]
    assert told == ["dense", "dense lstm 8"]


def test_a_relay_s_actors_are_counted_and_shown() -> None:
    run = run_of(settings_of("exchange.kind=gradients"), now=100.0)
    relay, _ = run.peers.join(b"r", hello_of("site", "relay"), 100.0)
    relay.codec = "int8"
    run.peers.site_reported(relay, SiteReport(actors=2, named=[(0, "x", 30.0), (1, "y", 10.0)]))
    status, row = run.status(101.0), run.metrics(101.0)
    assert (status.actors_now, status.actors, status.codec, row["actors"]) == (2, [], "int8", 2)
    assert status.relays == [relay.relay_status(101.0)]
    assert row["actor_frames_per_second"] == {"x": 30.0, "y": 10.0}


@pytest.mark.parametrize(("kind", "rollouts"), [("gradients", MOST_SUMMED), ("trajectories", 4)])
def test_a_header_has_room_for_the_episodes_of_a_relay_s_sum(kind: str, rollouts: int) -> None:
    spec = spec_of(settings_of(f"exchange.kind={kind}", "environment.num_envs=2", "algorithm.rollout_length=5"))
    episodes, players = [(-1e300, 10**9, 1e300)] * 10 * rollouts, [2**62] * 10 * rollouts
    header = pack(gradient_of(2**62, 2**62, summed=True, episodes=episodes, players=players))
    assert len(header) <= spec.header_bytes < len(header) + HEADER_BYTES + 1000
