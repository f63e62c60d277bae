from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from actor.evaluator.player import EvaluationPlayer
from common.errors import CodecError, RefusedError
from common.rl.environments.base import Environments
from common.rl.environments.make import make
from common.rl.episode import Episode
from common.rl.models import build
from common.settings.sections import Environment, Settings
from common.wire.bodies.weights import WeightsFormat
from tests.helpers.run import settings_of, welcome_of

FOUR = ("evaluation.episodes=4", "environment.num_envs=3", "network.hidden=[4]")


def model_of(settings: Settings) -> Any:
    environments = make(settings.environment, num_envs=1, seed=0)
    model = build(settings, environments.observation, environments.action)
    environments.close()
    return model


class Evaluated:
    """A player with weights that push the cart always to one side, and the seeds of all its resets."""

    def __init__(self, *assignments: str, **welcomed: Any) -> None:
        self.seeds: list[int | None] = []
        settings = settings_of(*FOUR, *assignments)
        model = model_of(settings)
        fields = {"model": model.hash, "weights_format": "fp32", "seed": 7} | welcomed
        self.player = EvaluationPlayer(welcome_of(**fields), settings, self._make)
        packing = WeightsFormat("fp32", model.size, len(model.vectors), model.extras.size)
        model.vector[:] = 0.0
        model.vector[-3:] = (1.0, 0.0, 0.0)  # the heads' biases
        self.player.load(packing.pack(model.vectors, model.extras))

    def _make(self, section: Environment, *, num_envs: int, seed: int) -> Environments:
        environments = make(section, num_envs=num_envs, seed=seed)
        reset = environments.reset

        def noting(seed: int | None = None) -> Any:
            self.seeds.append(seed)
            return reset(seed)

        environments.reset = noting  # type: ignore[method-assign]
        self.count = num_envs
        return environments

    def play(self) -> list[Episode]:
        self.player.begin()
        assert self.player.advance(math.inf)
        return self.player.episodes


def test_whole_episodes_with_the_weights_that_were_loaded() -> None:
    one = Evaluated()
    episodes = one.play()
    assert one.count == 3, "as many as an actor has, at most"
    assert [episode.length for episode in episodes] == [episode.episode_return for episode in episodes]
    assert len(episodes) == 4
    assert all(8 <= episode.length <= 10 for episode in episodes), "the pole falls at once"
    one.player.close()


def test_each_evaluation_has_episodes_of_its_own_which_no_actor_has() -> None:
    one, other, later = Evaluated(), Evaluated(seed=8), Evaluated(epoch=2)
    for evaluated in (one, one, other, later):
        evaluated.play()
    seeds = [seed for some in (one, other, later) for seed in some.seeds]
    assert len(set(seeds)) == len(seeds) == 4
    assert all(seed is not None and seed >= 2**63 for seed in seeds)
    for evaluated in (one, other, later):
        evaluated.player.close()


def test_it_plays_in_slices_of_time() -> None:
    one = Evaluated()
    one.player.begin()
    slices = 0
    while not one.player.advance(-math.inf):
        slices += 1
    assert len(one.player.episodes) == 4
    assert slices >= 8, "a step of the batch each"
    one.player.close()


def test_statistics_stand_still() -> None:
    one = Evaluated("network.normalize=true")
    extras = one.player._agent.model.extras.copy()
    one.play()
    np.testing.assert_array_equal(one.player._agent.model.extras, extras)
    one.player.close()


def test_another_network_is_refused() -> None:
    with pytest.raises(RefusedError, match="is not the learner's"):
        Evaluated(model="f" * 16)


def test_weights_that_do_not_fit_are_told() -> None:
    one = Evaluated()
    with pytest.raises(CodecError):
        one.player.load(b"123")
    one.player.close()
