from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from learner.exchange.policy_server import PolicyServer
from learner.exchange.rollout_buffer import GroupBuffer
from simulation import measure
from simulation.settings import Costs
from tests.helpers.simulated import cluster_of


@pytest.mark.parametrize("kind", ["gradients", "trajectories", "actions"])
def test_everything_that_is_measured_takes_some_time_and_the_rest_is_as_given(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "SECONDS", 0.2)
    cluster, _ = cluster_of(f"exchange.kind={kind}", "limits.frames=0")
    found = measure.measured(cluster.settings, Costs(actor_start=7.0))
    assert found.actor_start == 7.0
    assert 0 < found.environment_step < 0.1
    assert 0 < found.batch_step < 0.1
    assert 0 < found.gradient < 1
    once, each_frame = found.optimizer_step, found.learner_frame
    if kind == "gradients":
        assert 0 < once < 1 and each_frame == Costs().learner_frame, "which such a learner does not need"
    else:
        assert once == 0 < each_frame < 0.1, "its steps are measured with what they compute: it counts once"
    assert measure.SHELL_SECONDS <= found.message < 1


def test_acting_counts_where_the_learner_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes through the network are made between messages and steps, so that neither of these measures them."""
    act, seconds = PolicyServer.act, 0.003

    def slow(server: PolicyServer, groups: Sequence[GroupBuffer], version: int) -> list[bytes]:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass
        return act(server, groups, version)

    monkeypatch.setattr(measure, "SECONDS", 0.2)
    monkeypatch.setattr(measure, "LEAST_ROLLOUTS", 2)
    monkeypatch.setattr(PolicyServer, "act", slow)
    cluster, _ = cluster_of("exchange.kind=actions", "exchange.groups=2", "limits.frames=0")
    found = measure.measured(cluster.settings, Costs())
    assert found.learner_frame > 0.9 * seconds / cluster.settings.environment.num_envs
    assert found.message < seconds


def test_what_another_watch_measures_meanwhile_can_be_left_out() -> None:
    inner, outer = measure._Stopwatch(), measure._Stopwatch()

    def spin() -> None:
        until = time.thread_time() + 0.01
        while time.thread_time() < until:
            pass

    outer.around(inner.around(spin), without=inner)()
    outer.around(spin, without=inner)()
    assert inner.total >= 0.01
    assert outer.seconds[0] < 0.01 <= outer.seconds[1]


def test_only_those_calls_are_timed_that_move_something() -> None:
    watch, all_of_them, seen = measure._Stopwatch(), measure._Stopwatch(), [0]

    def put(number: int) -> int:
        seen[0] = number
        return number

    call = all_of_them.around(watch.around(put, lambda: seen[0]))
    assert [call(number) for number in (0, 1, 1, 2)] == [0, 1, 1, 2]
    assert (len(watch.seconds), len(all_of_them.seconds)) == (2, 4)
