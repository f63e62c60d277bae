from dataclasses import dataclass, replace

import pytest

from common.settings.sections import Scaling
from learner.scaling import Decision, Measurement, decide, start

INTERVAL = 5
"""Seconds between two decisions."""
GROWING = Scaling(policy="episode-duration", minimum=2, maximum=5)


@dataclass
class Fleet:
    """A run of constant pace: every actor ends an episode a second and takes its share of the learner."""

    section: Scaling
    busy_per_actor: float = 0.01
    episode_seconds: float = 25.0
    actors: int = 0
    episodes: int = 0
    last_addition: int = 0
    due: int = 1

    def measured(self) -> Measurement:
        return Measurement(
            actors=self.actors,
            wanted=self.actors,
            episodes_since=self.episodes - self.last_addition,
            mean_episode_seconds=self.episode_seconds,
            learner_busy=min(1.0, self.actors * self.busy_per_actor),
            lag_mean=0.0,
            gradients_per_second=10.0,
            steps_per_second=10.0,
        )

    def run(self, seconds: int) -> list[Decision]:
        decisions = []
        self.actors = self.actors or start(self.section).wanted
        for _ in range(seconds):
            self.episodes += self.actors
            self.due -= 1
            if self.due:
                continue
            self.due = INTERVAL
            decision = decide(self.section, self.measured())
            decisions.append(decision)
            if decision.wanted > self.actors:
                self.last_addition = self.episodes
            self.actors = decision.wanted
        return decisions


def test_fixed_starts_and_stays_and_comes_back_from_elsewhere() -> None:
    section = Scaling(policy="fixed", minimum=3, maximum=3)
    assert start(section) == Decision(3, "fixed: 3 actors")
    assert {decision.wanted for decision in Fleet(section, actors=5).run(30)} == {3}


def test_episode_duration_adds_an_actor_per_thousand_episodes_up_to_the_maximum() -> None:
    fleet = Fleet(GROWING)
    assert start(GROWING) == Decision(2, "from the minimum: 2 actors")
    wanted = [decision.wanted for decision in fleet.run(499)]
    assert set(wanted) == {2}
    wanted = [decision.wanted for decision in fleet.run(1000)]
    assert sorted(wanted) == wanted
    assert set(wanted) == {3, 4, 5}
    assert (wanted.index(4), wanted.index(5)) == (67, 117), "after 335 s of 3 actors and 250 s of 4"


def test_an_addition_that_was_held_back_comes_as_soon_as_there_is_room() -> None:
    fleet = Fleet(GROWING, busy_per_actor=0.45)
    held = fleet.run(600)[-1]
    assert (held.wanted, held.held) == (2, True)
    assert held.why.startswith("held at 2 actors: learner busy 90% > 80%; else mean episode 25.0 s > 20 s, ")
    fleet.busy_per_actor = 0.1
    fleet.due = 1
    assert fleet.run(1)[0].wanted == 3


def test_fewer_or_as_many_actors_pass_whatever_the_load() -> None:
    busy = replace(Fleet(GROWING, actors=7).measured(), learner_busy=1.0)
    assert decide(GROWING, busy) == Decision(5, "bounds 2 to 5: 7 -> 5 actors")
    assert not decide(GROWING, replace(busy, wanted=5)).held


def test_the_count_of_episodes_goes_on_in_the_next_epoch() -> None:
    fleet = Fleet(GROWING, episodes=1000, last_addition=900)
    assert {decision.wanted for decision in fleet.run(440)} == {2}
    assert fleet.run(60)[-1].wanted == 3


def test_load_fills_the_learner_and_keeps_below_the_limit() -> None:
    wanted = [decision.wanted for decision in Fleet(Scaling(policy="load", minimum=1, maximum=50), 0.05).run(300)]
    assert wanted[-1] == 13
    assert len(set(wanted[-20:])) == 1


@pytest.mark.parametrize(("wanted", "expected"), [(1, 4), (20, 8), (5, 5)])
def test_a_run_resumed_with_other_bounds_goes_to_them(wanted: int, expected: int) -> None:
    section = Scaling(policy="episode-duration", minimum=4, maximum=8)
    decisions = Fleet(section, actors=wanted, episode_seconds=1.0).run(6)
    assert decisions[0].wanted == expected
    assert ("bounds 4 to 8" in decisions[0].why) == (wanted != expected)
