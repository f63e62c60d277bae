from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from actor.agent import agent as agent_module
from actor.agent.evaluation import play_episodes
from actor.agent.trained_agent import TrainedAgent, TrainedRun, open_run
from common.errors import ConfigurationError
from common.rl.environments.wrappers import PacedEnvironments
from common.rl.model import BACKGROUND
from common.settings.sections import Settings
from learner.record.run_lock import create

MakeRun = Callable[..., Path]


@contextmanager
def agent(run: TrainedRun, **keywords: Any) -> Iterator[TrainedAgent]:
    one = TrainedAgent(run, **{"num_envs": 4, "seed": 1, "sampled": False, **keywords})
    yield one
    one.close()


def test_best_and_newest(trained_run: MakeRun) -> None:
    path = trained_run("seed=9")
    assert open_run(path, "best").checkpoint.version == 1
    assert open_run(path, "newest").checkpoint.version == 2
    assert open_run(path, "newest").settings.seed == 9


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no run"):
        open_run(tmp_path, "best")


@pytest.mark.parametrize("which", ["best", "newest"])
def test_no_checkpoint(tmp_path: Path, which: Any) -> None:
    create(tmp_path, Settings()).close()
    with pytest.raises(ConfigurationError, match=re.escape(f"`a3cd train --resume --run-dir {tmp_path}`")):
        open_run(tmp_path, which)


def test_acts_with_the_weights_of_the_checkpoint(trained_run: MakeRun) -> None:
    path = trained_run(favoured=0)
    for which, action in (("best", 0), ("newest", 1)):
        with agent(open_run(path, which)) as one:
            assert one.act(one.environments.reset(0)).tolist() == [action] * 4


def test_sampled_actions_follow_the_probabilities_and_the_seed(trained_run: MakeRun) -> None:
    run = open_run(trained_run(), "best")
    drawn = []
    for _ in range(2):
        with agent(run, num_envs=1000, sampled=True) as one:
            drawn.append(one.act(one.environments.reset(0)))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.mean(drawn[0] == 0) == pytest.approx(np.e / (np.e + 1), abs=0.05)


def test_of_values_the_highest_is_taken_and_sampled_a_little_explored(trained_run: MakeRun) -> None:
    run = open_run(trained_run("algorithm.kind=one-step-q"), "best")
    for sampled, most in ((False, 0.0), (True, 0.05)):
        with agent(run, num_envs=1000, sampled=sampled) as one:
            others = float(np.mean(one.act(one.environments.reset(0)) != 0))
        assert most / 4 <= others <= most


def test_of_numbers_the_means_are_taken(trained_run: MakeRun) -> None:
    run = open_run(trained_run("environment.id='Pendulum-v1'", "network.log_std='state'"), "best")
    for sampled, exact in ((False, True), (True, False)):
        with agent(run, sampled=sampled) as one:
            actions = one.act(one.environments.reset(0))
            assert actions.shape == (4, 1)
            assert (actions == 1.0).all() == exact
            assert one.environments.step(actions).rewards.shape == (4,)


def test_observations_are_normalised_by_the_checkpoints_statistics(trained_run: MakeRun) -> None:
    normalize = "network.normalize=true"
    path = trained_run(normalize, moments=(4, [1.0, 2.0, 3.0, 4.0], [4.0, 16.0, 36.0, 64.0]))
    with agent(open_run(path, "best")) as one:
        extras = one.model.extras.tolist()
    np.testing.assert_allclose(extras, [1, 2, 3, 4, 1, 0.5, 1 / 3, 0.25], rtol=1e-6)


def test_the_background_is_the_checkpoints(trained_run: MakeRun) -> None:
    frames = ("environment.id=CartPole-v1", "environment.observation=frames", "network.normalize=true")
    run = open_run(trained_run(*frames), "best")
    with agent(run) as one:
        assert one.model.background.tolist() == run.checkpoint.optimizer[BACKGROUND].tolist()
    del run.checkpoint.optimizer[BACKGROUND]
    with pytest.raises(ConfigurationError, match="the checkpoint's background has 0 numbers, not 28225"):
        TrainedAgent(run, num_envs=1, seed=0, sampled=False)


def test_statistics_of_another_size_are_refused(trained_run: MakeRun) -> None:
    run = open_run(trained_run("network.normalize=true", moments=(4, [1.0], [2.0])), "best")
    with pytest.raises(ConfigurationError, match="running statistics do not fit"):
        TrainedAgent(run, num_envs=1, seed=0, sampled=False)


def test_environments_are_not_slowed_down(trained_run: MakeRun) -> None:
    run = open_run(trained_run("environment.step_seconds=0.01"), "best")
    with agent(run) as one:
        assert not isinstance(one.environments, PacedEnvironments)


def test_weights_of_another_network_are_refused(trained_run: MakeRun) -> None:
    run = open_run(trained_run(named="f" * 16), "best")
    with pytest.raises(ConfigurationError, match=r"another network \(f{16}, \d+ parameters\) than the settings give"):
        TrainedAgent(run, num_envs=1, seed=0, sampled=False)


def test_environments_are_closed_when_the_weights_do_not_fit(
    trained_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    genuine = agent_module.make_environments

    def make(*arguments: Any, **keywords: Any) -> Any:
        environments = genuine(*arguments, **keywords)
        monkeypatch.setattr(environments, "close", lambda: made.append("closed"))
        return environments

    monkeypatch.setattr(agent_module, "make_environments", make)
    run = open_run(trained_run(named="x"), "best")
    with pytest.raises(ConfigurationError):
        TrainedAgent(run, num_envs=1, seed=0, sampled=False)
    assert made == ["closed"]


def test_a_recurrent_agent_remembers_its_episode_and_no_other(trained_run: MakeRun) -> None:
    run = open_run(trained_run("network.lstm=4", "network.hidden=[8]"), "best")
    with agent(run, num_envs=2) as one:
        flat = one.model.flat
        flat.vector.copy_(torch.randn(flat.size, generator=torch.Generator().manual_seed(2)))
        observations = one.environments.reset(0)
        one.begin()
        one.act(observations)
        first = one._state.copy()
        one.keep(np.array([True, False]))
        one.act(observations)
        second = one._state.copy()
        assert not np.allclose(second[0], first[0])
        assert np.allclose(second[1], first[1])
        one.begin()
        one.act(observations)
        third = one._state.copy()
        assert third is not None and np.allclose(third, first)


def test_a_recurrent_agent_plays_episodes_alike_whatever_was_played_before(trained_run: MakeRun) -> None:
    run = open_run(trained_run("network.lstm=4"), "best")
    with agent(run, num_envs=2) as one:
        flat = one.model.flat
        flat.vector.copy_(torch.randn(flat.size, generator=torch.Generator().manual_seed(2)))
        played = [play_episodes(one, episodes=2, max_steps=50, seeds=count(3)) for _ in range(2)]
        assert played[0] == played[1]
