from __future__ import annotations

import pytest

from actor.core import SERVICE_SECONDS
from actor.effects import Prepare
from actor.players.base import Player
from common.errors import EXIT_DONE, EnvironmentMissingError, RefusedError, UnavailableError
from simulation.actor_node import ActorNode
from simulation.settings import Costs, Host
from tests.helpers.simulated import cluster_of

ENDLESS = ("limits.frames=0", "limits.seconds=60")


def test_it_plays_in_slices_and_a_rollout_takes_its_steps_and_its_gradient() -> None:
    costs = Costs(
        batch_step=0.015, environment_step=0.0, gradient=1.0, gradient_step=0.125, actor_start=1.0, actor_prepare=0.0
    )
    cluster, _ = cluster_of(*ENDLESS, actors=1, costs=costs)
    cluster.run(0.5)
    while "here-0" not in cluster.actors or not cluster.actors["here-0"].maker.steps:
        cluster.queue.step()
    actor = cluster.actors["here-0"]
    begun, steps = cluster.queue.now, actor.maker.steps
    while actor.maker.steps == steps:
        cluster.queue.step()
    assert actor.maker.steps - steps <= 2 * (1 + SERVICE_SECONDS // costs.batch_step)
    while not cluster.learner.core.run.stats.counters.gradients:
        cluster.queue.step()
    assert cluster.queue.now - begun == pytest.approx(8 * 0.015 + 1.0 + 16 * 0.125, abs=0.1)


def test_one_that_is_told_to_leave_says_goodbye_and_one_that_is_killed_does_not() -> None:
    cluster, _ = cluster_of(*ENDLESS, actors=2)
    cluster.run(3.0)
    cluster.actors["here-0"].leave()
    cluster.actors["here-1"].kill()
    assert [cluster.actors[f"here-{number}"].exit_code for number in range(2)] == [EXIT_DONE, 137]
    cluster.run(3.01)
    assert [peer.hello.name for _, peer in cluster.learner.core.run.peers.role("actor")] == ["here-1"]


def ended(error: Exception) -> tuple[ActorNode, list[int]]:
    """An actor whose player cannot be made."""
    cluster, _ = cluster_of(*ENDLESS, actors=1)
    codes: list[int] = []

    def fail(effect: Prepare, node: ActorNode) -> Player:
        raise error

    actor = cluster.start_actor("odd", Host(), ended=codes.append, make_player=fail)
    cluster.run(3.0)
    return actor, codes


def test_one_that_lacks_the_environment_ends_with_its_exit_code() -> None:
    actor, codes = ended(EnvironmentMissingError("no such game"))
    assert codes == [EnvironmentMissingError.exit_code] == [actor.exit_code]
    assert actor.last_error == "no such game"


def test_one_whose_network_differs_asks_again() -> None:
    actor, codes = ended(RefusedError("another network"))
    assert (codes, actor.exit_code, actor.core.membership.obstacle) == ([], None, "another network")


def test_one_whose_environment_fails_goes_on_with_new_episodes() -> None:
    cluster, _ = cluster_of(*ENDLESS, actors=1)
    cluster.run(3.0)
    player = cluster.actors["here-0"].core.player
    assert player is not None
    advance, failures = player.advance, iter([UnavailableError("a step failed")])

    def failing(until: float) -> bool:
        for error in failures:
            raise error
        return advance(until)

    player.advance = failing  # type: ignore[method-assign]
    frames = cluster.status().frames
    cluster.run(6.0)
    assert cluster.status().frames > frames
    assert cluster.actors["here-0"].last_error == "a step failed"


def test_one_that_stands_still_does_nothing_meanwhile() -> None:
    cluster, _ = cluster_of(*ENDLESS, actors=1)
    cluster.run(3.0)
    actor = cluster.actors["here-0"]
    actor.stall(5.0)
    cluster.run(3.1)
    steps = actor.maker.steps
    cluster.run(7.9)
    assert actor.maker.steps == steps
    cluster.run(9.0)
    assert actor.maker.steps > steps
