from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actor.players.rollouts
from actor.players.rollouts import RolloutPlayer
from common.errors import CodecError, NonFiniteError, RefusedError, UnavailableError
from common.rl.algorithms.exploration import EpsilonGreedy
from common.rl.networks.model import build
from common.rl.rollout import Rollout
from common.wire.bodies.weights import WeightsFormat
from common.wire.codecs.registry import make as make_codec
from tests.actor.players.conftest import SMALL, Make
from tests.helpers.environments import Scripted
from tests.helpers.run import settings_of

FOREVER, NO_TIME = math.inf, -math.inf
Weights = Callable[[float], bytes]


def held(rollouts: RolloutPlayer) -> float:
    """The first of the weights in the model."""
    return float(rollouts.model.vector[0])


def version(rollouts: RolloutPlayer, until: float = FOREVER) -> int:
    """That of the next complete rollout."""
    played = rollouts.play(until)
    assert played is not None
    return played[1].version


def test_the_summary_says_what_was_played(environments: Scripted, make: Make) -> None:
    played = make(RolloutPlayer).play(FOREVER)
    assert played is not None
    rollout, summary = played
    assert isinstance(rollout, Rollout) and rollout.steps == 10
    assert (summary.version, summary.steps, summary.emulator_frames, summary.count) == (10, 10, 40, 1)
    assert [(one.episode_return, one.length) for one in summary.episodes] == [(7.0, 3), (31.0, 5)]
    assert (summary.statistics, summary.moments) == ({}, [])


def test_a_rollout_is_played_in_as_many_slices_as_time_allows(environments: Scripted, make: Make) -> None:
    rollouts = make(RolloutPlayer)
    complete = [rollouts.play(NO_TIME) is not None for _ in range(12)]
    assert complete == ([False] * 5 + [True]) * 2


def test_with_refresh_weights_are_loaded_as_they_come(environments: Scripted, make: Make, weights: Weights) -> None:
    rollouts = make(RolloutPlayer, "algorithm.refresh=true", body=weights(0.0))
    rollouts.play(NO_TIME)
    rollouts.weights.offer(11, weights(0.25))
    for _ in range(3):
        assert rollouts.play(NO_TIME) is None
        assert held(rollouts) == 0.25, "in the middle of a rollout"
    rollouts.weights.offer(20, weights(0.5))
    assert rollouts.play(NO_TIME) is None
    mean = (10 + 3 * 11 + 2 * 20) // 6
    assert (version(rollouts), held(rollouts)) == (mean, 0.5), "that of the weights that acted, on average"


@pytest.mark.parametrize("setting", ["algorithm.correction='none'", "algorithm.refresh=false"])
def test_where_steps_must_be_of_one_policy_weights_are_loaded_between_rollouts_only(
    environments: Scripted, make: Make, weights: Weights, setting: str
) -> None:
    rollouts = make(RolloutPlayer, setting, body=weights(0.0))
    rollouts.play(NO_TIME)
    for number in (11, 12, 13):
        rollouts.weights.offer(number, weights(number / 100))
    assert (version(rollouts), held(rollouts)) == (10, 0.0)
    assert (version(rollouts), held(rollouts)) == (13, pytest.approx(0.13))


def test_weights_that_do_not_decode_are_no_version(environments: Scripted, make: Make, weights: Weights) -> None:
    rollouts = make(RolloutPlayer, "algorithm.refresh=false", body=weights(0.25))
    rollouts.weights.offer(11, b"cut short")
    with pytest.raises(CodecError):
        rollouts.play(FOREVER)
    assert (version(rollouts), held(rollouts)) == (10, 0.25)


def test_halves_are_read_where_the_welcome_says_so(environments: Scripted, make: Make) -> None:
    size = make(RolloutPlayer).model.size
    body = make_codec("fp16", size).encode(np.full(size, 0.5, np.float32))
    assert held(make(RolloutPlayer, body=body, weights_format="fp16")) == 0.5


def test_another_network_than_the_learner_s_is_refused_for_good(environments: Scripted, make: Make) -> None:
    with pytest.raises(RefusedError, match=r"is not the learner's \(another\).*install the same versions"):
        make(RolloutPlayer, model="another")
    assert environments.closed


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_after_a_failure_a_restart_begins_other_episodes(environments: Scripted, make: Make, reward: float) -> None:
    rollouts = make(RolloutPlayer)
    environments.rewards[1] = reward
    with pytest.raises(NonFiniteError):
        rollouts.play(FOREVER)
    environments.rewards[1] = 2.0
    rollouts.restart()
    assert len(environments.seeds) == 1, "the next call resets, since a reset may fail as well"
    rollout, summary = rollouts.play(FOREVER)
    assert (summary.steps, rollout.observations[0].tolist()) == (10, [[0.0, 0.0], [0.0, 0.0]])
    assert [seed is None for seed in environments.seeds] == [True, False]


def test_a_restart_that_fails_is_tried_again(
    environments: Scripted, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollouts = make(RolloutPlayer)
    rollouts.play(NO_TIME)
    rollouts.restart()
    with monkeypatch.context() as broken:
        broken.setattr(environments, "reset", lambda seed: (_ for _ in ()).throw(UnavailableError("no reset")))
        for _ in range(2):
            with pytest.raises(UnavailableError, match="no reset"):
                rollouts.play(NO_TIME)
    assert [rollouts.play(NO_TIME) is None for _ in range(6)] == [True] * 5 + [False]


@pytest.mark.parametrize("refresh", ["false", "true"])
def test_a_rollout_begun_in_the_epoch_before_is_of_no_version_of_this_one(
    environments: Scripted, make: Make, weights: Weights, refresh: str
) -> None:
    rollouts = make(RolloutPlayer, f"algorithm.refresh={refresh}")
    rollouts.play(NO_TIME)
    rollouts.forget()
    rollouts.weights.offer(4, weights(0.0))
    assert [version(rollouts), version(rollouts)] == [0, 4]


def test_environments_and_actions_are_seeded_by_the_welcome(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    made: list[Scripted] = []

    def make_environments(section: Any, **kwargs: Any) -> Scripted:
        asked.append(kwargs)
        made.append(Scripted((50, 50)))
        return made[-1]

    monkeypatch.setattr(actor.players.rollouts, "make_environments", make_environments)
    for seed in (5, 5, 6):
        make(RolloutPlayer, seed=seed).play(FOREVER)
    assert asked == [{"num_envs": 2, "seed": seed} for seed in (5, 5, 6)]
    taken = [np.stack(one.taken).tolist() for one in made]
    assert taken[0] == taken[1] != taken[2]


def test_a_method_of_values_takes_the_target_network_and_the_run_s_frames_with_the_weights(
    environments: Scripted, make: Make, weights: Weights
) -> None:
    def body(value: float, target: float, frames: int) -> bytes:
        return weights(value) + weights(target) + np.float32(frames).tobytes()

    rollouts = make(RolloutPlayer, "algorithm.kind=n-step-q", "algorithm.epsilon_frames=100", body=body(0.25, 0.5, 40))
    assert rollouts.model.target is not None
    exploring = rollouts._collector._exploration
    assert isinstance(exploring, EpsilonGreedy)
    seen = []
    for number, frames in ((10, 40), (11, 70), (12, 100)):
        rollouts.weights.offer(number, body(frames / 100, 0.5, frames))
        assert rollouts.play(NO_TIME) is None, "loaded in the middle of a rollout: there is nothing to correct"
        seen.append((held(rollouts), float(rollouts.model.target.vector[0])))
        assert exploring.epsilons == pytest.approx(exploring.finals + (1 - frames / 100) * (1 - exploring.finals))
    assert seen == [(pytest.approx(value), 0.5) for value in (0.4, 0.7, 1.0)]
    rollouts.weights.offer(13, weights(0.25))
    with pytest.raises(CodecError, match="were expected"):
        rollouts.play(NO_TIME)


def test_moments_go_with_the_summary_and_the_extras_come_with_the_weights(environments: Scripted, make: Make) -> None:
    normalize = ("network.normalize=true", "environment.reward_normalize=true")
    model = build(settings_of(*SMALL, *normalize), Scripted.observation, Scripted.action)
    form = WeightsFormat("fp32", model.flat.size, extras=5)
    rollouts = make(RolloutPlayer, *normalize, model=model.flat.hash, body=form.pack(model.vectors, model.extras))
    _, summary = rollouts.play(FOREVER)
    ((count, means, squares),) = summary.moments
    assert (count, len(means), len(squares)) == (summary.steps, 3, 3)
    rollouts.weights.offer(11, form.pack(model.vectors, np.arange(5, dtype=np.float32)))
    _, summary = rollouts.play(FOREVER)
    assert rollouts.model.extras.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert len(summary.moments) == 1


def test_closing_closes_the_environments(environments: Scripted, make: Make) -> None:
    make(RolloutPlayer).close()
    assert environments.closed
