from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

import actor.collector
from actor.collector import Collector, Played
from common.errors import NonFiniteError
from common.rl.action_spec import ActionSpec, discrete
from common.rl.algorithms.exploration import Sampling
from common.rl.networks.model import build
from common.rl.networks.recurrent import Recurrent
from common.rl.normalization import Normalization
from common.rl.rewards import RewardTransform
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm, Network, Settings
from tests.helpers.environments import Scripted
from tests.helpers.rollouts import tensors

FOREVER = math.inf
NO_TIME = -math.inf


def collector_of(
    environments: Scripted,
    *,
    seed: int = 0,
    lstm: int = 0,
    rewards: RewardTransform | None = None,
    **algorithm: Any,
) -> Collector:
    observation = environments.observation
    section, rng = Algorithm(**algorithm), np.random.default_rng(seed)
    return Collector(
        environments,
        build(Settings(network=Network(hidden=[4], lstm=lstm)), observation, environments.action),
        observation,
        algorithm=section,
        rewards=rewards or RewardTransform(environments.count),
        rng=rng,
        exploration=Sampling(environments.action, rng),
    )


def played(collector: Collector) -> Played:
    rollout = collector.advance(FOREVER)
    assert rollout is not None
    return rollout


def told(rollout: Played) -> list[tuple[float, int]]:
    """Return and length of each episode that ended."""
    return [(episode.episode_return, episode.length) for episode in rollout.episodes]


def column(array: np.ndarray, copy: int = 0) -> list[Any]:
    values: list[Any] = array[:, copy].tolist()
    return values


def test_a_rollout_holds_every_step_of_every_copy_and_masks_the_dummies() -> None:
    environments = Scripted((3, 5), rewards=(1.0, 2.0, 4.0, 8.0, 16.0), cut=(1,))
    rollout = played(collector_of(environments, rollout_length=6))
    data = rollout.data
    assert column(data.observations) == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2]]
    assert column(data.rewards) == [1.0, 2.0, 4.0, 0.0, 1.0, 2.0]
    assert column(data.valid) == [True, True, True, False, True, True]
    assert column(data.terminated) == [False, False, True, False, False, False]
    assert column(data.observations, 1) == [[0, 0], [0, 1], [0, 2], [0, 3], [0, 4], [0, 5], [1, 0]]
    assert column(data.rewards, 1) == [1.0, 2.0, 4.0, 8.0, 16.0, 0.0]
    assert column(data.valid, 1) == [True] * 5 + [False]
    assert column(data.terminated, 1) == [False] * 6, "a time limit is no termination"
    assert told(rollout) == [(7.0, 3), (31.0, 5)]
    assert data.steps == 10
    assert np.array_equal(data.actions, np.stack(environments.taken))
    assert {array.dtype for array in (data.rewards, data.behaviour_log_probs)} == {np.dtype(np.float32)}


def test_a_lost_life_is_an_end_for_learning_and_the_episode_goes_on() -> None:
    rollout = played(collector_of(Scripted((5,), life_ends=2), rollout_length=7))
    assert column(rollout.data.terminated) == [False, True, False, False, True, False, False]
    assert column(rollout.data.valid) == [True] * 5 + [False, True], "no dummy comes after a life"
    assert told(rollout) == [(5.0, 5)]


def test_the_next_rollout_goes_on_where_the_last_one_ended() -> None:
    collector = collector_of(Scripted((3, 100)), rollout_length=3)
    first = played(collector).data
    assert column(first.observations)[-1] == [0, 3]
    assert column(first.valid) == [True, True, True]
    second = played(collector)
    assert column(second.data.observations) == [[0, 3], [1, 0], [1, 1], [1, 2]]
    assert column(second.data.valid) == [False, True, True], "the dummy comes first in this one"
    assert column(second.data.observations, 1) == [[0, 3], [0, 4], [0, 5], [0, 6]]
    assert (second.data.steps, second.episodes) == (5, [])
    assert [length for _, length in told(played(collector))] == [3]


def test_log_probabilities_are_those_of_the_policy_that_acted() -> None:
    environments = Scripted((3, 5))
    collector = collector_of(environments, rollout_length=8)
    data = played(collector).data
    network = build(Settings(network=Network(hidden=[4])), environments.observation, discrete(3)).network
    given = tensors(data)
    logits, _ = network(given.observations[:-1].flatten(0, 1))
    expected = torch.log_softmax(logits, 1).gather(1, given.actions.view(-1, 1)).view(8, 2)
    torch.testing.assert_close(given.behaviour_log_probs, expected)


def test_the_same_seed_takes_the_same_actions_and_another_takes_others() -> None:
    taken = []
    for seed in (1, 1, 2):
        environments = Scripted((50,) * 4)
        played(collector_of(environments, rollout_length=20, seed=seed))
        taken.append(np.stack(environments.taken))
    assert np.array_equal(taken[0], taken[1])
    assert not np.array_equal(taken[0], taken[2])


def test_it_stops_in_between_when_time_is_up_and_nothing_is_lost() -> None:
    environments = Scripted((3, 5))
    collector = collector_of(environments, rollout_length=6)
    assert collector.fresh
    for _ in range(5):
        assert collector.advance(NO_TIME) is None
        assert not collector.fresh
    rollout = collector.advance(NO_TIME)
    assert rollout is not None and collector.fresh
    assert column(rollout.data.observations) == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2]]
    assert len(environments.taken) == 6
    assert len(rollout.episodes) == 2, "episodes that ended in the pieces"


@pytest.mark.parametrize(
    ("scale", "clip", "expected"),
    [(0.5, 0.0, [0.5, -2.0, 50.0]), (1.0, 1.0, [1.0, -1.0, 1.0]), (0.1, 0.3, [0.1, -0.3, 0.3])],
)
def test_rewards_are_scaled_then_clipped_and_returns_are_not(scale: float, clip: float, expected: list[float]) -> None:
    rollout = played(
        collector_of(
            Scripted((3,), rewards=(1.0, -4.0, 100.0)),
            rewards=RewardTransform(1, scale=scale, clip=clip),
            rollout_length=3,
        )
    )
    assert column(rollout.data.rewards) == pytest.approx(expected)
    assert rollout.episodes[0].episode_return == 97.0


def test_a_whole_episode_is_one_rollout_and_longer_ones_find_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor.collector, "FIRST_CAPACITY", 4)
    for length in (1, 3, 4, 5, 8, 9, 30):
        collector = collector_of(Scripted((length,), rewards=(1.0, 2.0)), whole_episodes=True)
        first = played(collector)
        observations = [[0, step] for step in range(length + 1)]
        assert column(first.data.observations) == observations
        assert column(first.data.rewards) == ([1.0, 2.0] * length)[:length]
        assert column(first.data.terminated) == [False] * (length - 1) + [True]
        assert (first.data.steps, [length for _, length in told(first)]) == (length, [length])
        second = played(collector)
        assert column(second.data.observations) == [[0, length]] + [[1, step] for step in range(length + 1)]
        assert column(second.data.valid) == [False] + [True] * length
        assert second.data.steps == length


def test_a_whole_episode_cut_off_by_a_time_limit_is_complete_too() -> None:
    rollout = played(collector_of(Scripted((6,), cut=(0,)), whole_episodes=True))
    assert rollout.data.steps == 6
    assert not rollout.data.terminated.any()


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_drops_the_rollout_and_playing_goes_on(reward: float) -> None:
    environments = Scripted((4,), rewards=(1.0, reward, 1.0, 1.0))
    collector = collector_of(environments, rollout_length=4, rewards=RewardTransform(environments.count, clip=1.0))
    with pytest.raises(NonFiniteError, match="no finite number"):
        collector.advance(FOREVER)
    environments.rewards[1] = 2.0
    collector.restart()
    rollout = played(collector)
    assert column(rollout.data.rewards) == [1.0, 1.0, 1.0, 1.0]
    assert [value for value, _ in told(rollout)] == [5.0], "no episode of the dropped rollout is told"


def test_a_restart_begins_other_episodes_than_the_first_ones() -> None:
    environments = Scripted((10,))
    collector = collector_of(environments, rollout_length=4)
    collector.advance(NO_TIME)
    collector.restart()
    collector.restart()
    assert collector.fresh
    first, second, third = environments.seeds
    assert first is None, "the seed the environments were made with"
    assert second is not None and third is not None and second != third
    assert column(played(collector).data.observations)[0] == [0, 0]


def test_a_restart_forgets_the_rollout_and_the_episodes_under_way() -> None:
    collector = collector_of(Scripted((3,), rewards=(1.0, 1.0, 5.0)), rollout_length=5)
    for _ in range(4):
        collector.advance(NO_TIME)
    collector.restart()
    rollout = played(collector)
    assert column(rollout.data.valid) == [True, True, True, False, True]
    assert told(rollout) == [(7.0, 3)]


def test_an_environment_that_fails_is_the_caller_s_to_handle() -> None:
    environments = Scripted()
    collector = collector_of(environments, rollout_length=4)
    collector.advance(NO_TIME)
    environments.fails = True
    with pytest.raises(RuntimeError):
        collector.advance(FOREVER)
    environments.fails = False
    collector.restart()
    assert column(played(collector).data.observations)[0] == [0, 0]


@pytest.mark.parametrize(
    "action",
    [ActionSpec("box", shape=(3,), squashed=(True,) * 3), ActionSpec("multi-discrete", (2, 3), (1, 2))],
    ids=lambda action: action.kind,
)
def test_actions_of_other_spaces_are_kept_as_drawn(action: ActionSpec) -> None:
    environments = Scripted((3, 5))
    environments.action = action
    data = played(collector_of(environments, rollout_length=4)).data
    assert data.actions.shape == (4, 2, *action.shape)
    assert data.actions.dtype == action.dtype
    assert np.array_equal(data.actions, np.stack(environments.taken))


def recomputed(data: Rollout, seed: int = 0) -> torch.Tensor:
    """Log-probabilities (T, B) of the actions, the rollout taken as one batch."""
    network = build(Settings(network=Network(hidden=[4], lstm=5), seed=seed), Scripted.observation, discrete(3)).network
    assert isinstance(network, Recurrent)
    given = tensors(data)
    outputs = network.unroll(network.features(given.observations.flatten(0, 1)), given.state, given.valid)
    log_probs = outputs.view(*data.observations.shape[:2], -1)[:-1, :, :-1].log_softmax(2).detach()
    return log_probs.gather(2, given.actions.unsqueeze(2)).squeeze(2)


def test_a_rollout_of_a_recurrent_network_can_be_recomputed_across_episodes_and_rollouts() -> None:
    lengths = (2, 3, 5, 50)
    collector = collector_of(Scripted(lengths, cut=(1,)), lstm=5, rollout_length=4)
    states = []
    for _ in range(6):
        data = played(collector).data
        torch.testing.assert_close(recomputed(data), tensors(data).behaviour_log_probs)
        assert data.state is not None
        states.append(data.state.copy())
        without = recomputed(dataclasses.replace(data, state=np.zeros_like(data.state)))
        assert torch.allclose(without, recomputed(data), atol=1e-6) != bool(data.state.any())
    for number, state in enumerate(states):
        # An episode takes its steps and a dummy.
        assert state.any(1).tolist() == [4 * number % (length + 1) != 0 for length in lengths]


def test_a_restart_forgets_what_was_seen() -> None:
    collector = collector_of(Scripted((50,)), lstm=5, rollout_length=3)
    played(collector)
    collector.advance(NO_TIME)
    collector.restart()
    data = played(collector).data
    assert data.state is not None
    assert not data.state.any()


def test_a_feed_forward_network_has_no_state() -> None:
    assert played(collector_of(Scripted(), rollout_length=3)).data.state is None


def test_what_is_normalised_is_counted_and_rewards_are_scaled_by_the_extras() -> None:
    extras = np.array([0.0, 0.0, 1.0, 1.0, 0.25], np.float32)
    collector = collector_of(
        Scripted((3,), rewards=(1.0, 2.0, 4.0)),
        rollout_length=5,
        rewards=RewardTransform(1, gamma=0.5, scale=2.0, normalization=Normalization(2, rewards=True), extras=extras),
    )
    first = played(collector)
    assert column(first.data.rewards) == [0.5, 1.0, 2.0, 0.0, 0.5]
    assert first.moments is not None
    count, means, squares = first.moments.plain()
    sums = np.array([1.0, 2.5, 5.25, 1.0])
    seen = np.array([[0, 0], [0, 1], [0, 2], [1, 0]])
    assert count == first.data.steps == 4
    np.testing.assert_allclose(means, [*seen.mean(axis=0), sums.mean()])
    np.testing.assert_allclose(squares, [*(4 * seen.var(axis=0)), 4 * sums.var()])
    extras[-1] = 1.0
    assert column(played(collector).data.rewards) == [4.0, 8.0, 0.0, 2.0, 4.0]
    assert column(first.data.observations)[0] == [1.0, 1.0], "what is counted is what the environment gave"


def test_an_observation_that_cannot_be_counted_drops_the_rollout() -> None:
    environments = Scripted((30,))
    counted = Normalization(2, rewards=False)
    collector = collector_of(
        environments, rollout_length=4, rewards=RewardTransform(1, normalization=counted, extras=counted.extras())
    )
    environments._observations = lambda: np.full((1, 2), np.inf, np.float32)  # type: ignore[method-assign]
    with pytest.raises(NonFiniteError, match="not finite or too large for statistics"):
        collector.advance(FOREVER)


class Ticking:
    """A second passes with each look at it."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now

    perf_counter = monotonic


def test_time_is_that_of_the_environments() -> None:
    environments = Scripted((3, 3), rewards=(1.0, 2.0, 4.0))
    environments.clock = Ticking()
    collector = collector_of(environments, rollout_length=6)
    assert collector.advance(7.0) is None
    assert len(environments.taken) == 3, "each step takes a look before it, one after it, and one at the end"
    rollout = played(collector)
    assert [episode.seconds for episode in rollout.episodes] == [3.0, 3.0]


@pytest.mark.parametrize(("length", "warnings"), [(20, 0), (21, 1)])
def test_a_rollout_that_takes_long_is_told_once(length: int, warnings: int, caplog: pytest.LogCaptureFixture) -> None:
    environments = Scripted((30, 30))
    environments.clock = Ticking()
    collector = collector_of(environments, rollout_length=length)
    for _ in range(2):
        played(collector)
    said = f"a step of 2 environments takes 1.0 s, so a rollout takes {length} s, and only then its frames count: "
    assert [record.message.startswith(said) for record in caplog.records] == [True] * warnings
