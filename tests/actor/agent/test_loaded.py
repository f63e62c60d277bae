"""An agent in somebody else's program acts as it does in a3cd's own environments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from actor.agent.loaded import LoadedAgent, load
from actor.agent.trained_agent import TrainedAgent, open_run
from common.errors import A3cdError, ConfigurationError, DamagedCheckpointError, ObservationError
from common.rl.seeds import held_out_seeds
from tests.helpers.guarded import ACTIONS, ID

MakeRun = Callable[..., Path]
CASES = {
    "dense": (),
    "normalised": ("network.normalize=true",),
    "stacked": ("environment.frame_stack=3",),
    "values": ("algorithm.kind=n-step-q",),
    "lstm": ("network.lstm=8", "network.hidden=[8]"),
    "box": ("environment.id=Pendulum-v1",),
    "tanh": ("environment.id=Pendulum-v1", "environment.action_bounds=tanh", "network.log_std=state"),
    "discrete": ("environment.id=FrozenLake-v1",),
    "tuple": ("environment.id=Blackjack-v1",),
    "masked": (f"environment.id={ID}", "environment.action_masks=true"),
    "masked pairs": (
        f"environment.id={ID}",
        "environment.action_masks=true",
        "environment.options={pairs=true,numbers=true}",
        "network.lstm=8",
    ),
    "frames": ("environment.id=CartPole-v1", "environment.observation=frames", "environment.frame_stack=2"),
    "game": ("environment.id=ALE/Pong-v5", "environment.max_episode_steps=30"),
    "normalised game": (
        "environment.id=ALE/Pong-v5",
        "environment.max_episode_steps=30",
        "network.normalize=true",
    ),
}
STATISTICS = (4, [1.0, 2.0, 3.0, 4.0], [4.0, 16.0, 36.0, 64.0])


@pytest.mark.parametrize("name", CASES)
def test_it_acts_as_in_our_own_environments(name: str, trained_run: MakeRun) -> None:
    """Step by step over two episodes, both fed with the same seeds."""
    path = trained_run(*CASES[name], random=True, moments=STATISTICS if name == "normalised" else None)
    loaded = load(path, sampled=False)
    own = TrainedAgent(open_run(path, "best"), num_envs=1, seed=0, sampled=False)
    environment = loaded.environment(seed=5)
    seeds = held_out_seeds("report", 5)
    played = []
    for _ in range(2):
        observation, info = environment.reset()
        observations = own.environments.reset(next(seeds))
        own.begin()
        loaded.reset()
        for _ in range(40):
            expected = own.act(observations)
            action = loaded.act(observation, info.get("action_mask"))
            assert loaded.action_space.contains(action)
            np.testing.assert_array_equal(action, own.environments.actions.own(expected)[0])
            observations, rewards, terminated, truncated, _ = own.environments.step(expected)
            observation, reward, *ends, info = environment.step(action)
            assert (reward, *ends) == (rewards[0], terminated[0], truncated[0])
            played.append(reward)
            if any(ends):
                break
    assert played
    environment.close()
    own.close()


@pytest.mark.parametrize("name", ["dense", "box", "lstm", "stacked"])
def test_a_batch_is_acted_on_like_its_parts(name: str, trained_run: MakeRun) -> None:
    path = trained_run(*CASES[name], random=True)
    many, each = load(path), [load(path) for _ in range(5)]
    space = many.observation_space
    space.seed(1)
    for _ in range(3):
        batch = np.clip([space.sample() for _ in range(5)], -3, 3)
        actions = many.act(batch)
        single = np.array([agent.act(one) for agent, one in zip(each, batch, strict=True)])
        assert actions.shape == (5, *(many.action_space.shape or ()))
        np.testing.assert_allclose(actions, single, rtol=1e-5, atol=1e-6)
        ended = np.array([True, False, False, False, True])
        many.reset(ended)
        for agent in (each[0], each[4]):
            agent.reset()


def test_one_that_remembers_wants_the_same_batch_until_it_is_reset(trained_run: MakeRun) -> None:
    agent = load(trained_run(*CASES["lstm"]))
    assert agent.remembers
    agent.act(np.zeros((3, 4)))
    with pytest.raises(ObservationError, match=r"a batch of 1, where 3 episodes are in progress .* call reset\(\)"):
        agent.act(np.zeros(4))
    with pytest.raises(ObservationError, match=r"ended has shape \(2,\), the batch 3 episodes"):
        agent.reset(np.zeros(2, np.bool_))
    agent.reset()
    assert agent.act(np.zeros(4)) in (0, 1)


def test_one_that_does_not_takes_any(trained_run: MakeRun) -> None:
    agent = load(trained_run())
    assert not agent.remembers
    assert agent.act(np.zeros((3, 4))).shape == (3,)
    assert isinstance(agent.act([0, 0, 0, 0]), np.int64)
    assert agent.act(np.zeros((0, 4))).shape == (0,)
    agent.reset(np.ones(7, np.bool_))


def test_what_the_mask_forbids_is_not_chosen(trained_run: MakeRun) -> None:
    """By an agent that is all for the first action."""
    agent = load(trained_run(*CASES["masked"]))
    allowed = np.eye(ACTIONS, dtype=np.int8)[np.arange(40) % ACTIONS]
    allowed[:, 1] = 1
    for agent.sampled in (True, False):
        actions = agent.act(np.full(40, 6), allowed)
        assert allowed[np.arange(40), actions - 2].all()
    assert agent.act(6, [0, 0, 0, 1, 0, 0, 0]) == 5
    assert agent.act(6, [1] * ACTIONS) == 2


@pytest.mark.parametrize(
    ("name", "mask", "why"),
    [
        ("dense", [1, 1], "was trained without environment.action_masks"),
        ("masked", None, r'takes action_mask=info\["action_mask"\] with each'),
        ("masked", [1, 1], r"shape \(2,\) and int64; it takes 7 numbers"),
        ("masked", np.ones((1, ACTIONS)), r"shape \(1, 7\)"),
        ("masked", ["a"] * ACTIONS, "and <U1"),
        ("masked", [0] * ACTIONS, "action_mask allows no action"),
        ("masked pairs", [0, 0] + [1] * ACTIONS, "action_mask allows no action"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(name: str, mask: Any, why: str, trained_run: MakeRun) -> None:
    agent = load(trained_run(*CASES[name]))
    with pytest.raises(ObservationError, match=why):
        agent.act(agent.observation_space.sample() if name != "dense" else np.zeros(4), mask)


def test_drawn_or_best_as_the_settings_say(trained_run: MakeRun) -> None:
    path = trained_run("evaluation.sampled=true")
    agent = load(path, seed=1)
    assert agent.sampled
    drawn = agent.act(np.zeros((1000, 4)))
    assert np.mean(drawn == 0) == pytest.approx(np.e / (np.e + 1), abs=0.05)
    np.testing.assert_array_equal(load(path, seed=1).act(np.zeros((1000, 4))), drawn)
    agent.sampled = False
    assert not agent.act(np.zeros((1000, 4))).any()
    assert not load(path, sampled=False).sampled


def test_of_values_a_little_is_drawn(trained_run: MakeRun) -> None:
    agent = load(trained_run(*CASES["values"]), sampled=True)
    assert 0.01 < np.mean(agent.act(np.zeros((2000, 4))) != 0) < 0.05


def test_which_weights(trained_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trained_run()
    monkeypatch.chdir(path.parent)
    assert load(str(path)).version == 1
    assert load(path, checkpoint="newest").version == 2
    newest = path / "checkpoints" / "0000000002"
    assert load(newest).version == 2
    assert load(newest / "weights.safetensors").version == 2
    path.rename(path.parent / "runs")
    with pytest.raises(ConfigurationError, match="must be"):
        load("last", checkpoint="other")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="must be 0 or more"):
        load("last", seed=-1)
    assert repr(load("last")) == "<agent of CartPole-v1, weights of version 1, best actions>"


def test_what_cannot_be_loaded(trained_run: MakeRun, tmp_path: Path) -> None:
    path = trained_run(named="f" * 16)
    with pytest.raises(ConfigurationError, match="holds another network"):
        load(path)
    for file in path.glob("checkpoints/*/weights.safetensors"):
        file.write_bytes(b"cut")
    with pytest.raises(DamagedCheckpointError, match="none of the checkpoints there is whole"):
        load(path)
    with pytest.raises(DamagedCheckpointError, match="checksum"):
        load(path / "checkpoints" / "0000000001")
    with pytest.raises(A3cdError, match="there is no such folder"):
        load(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(A3cdError, match="file: holds no run"):
        load(tmp_path / "file")


def test_the_program_around_it_keeps_its_threads(trained_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.setattr(torch, "set_flush_denormal", asked.append)
    assert isinstance(load(trained_run(*CASES["lstm"])), LoadedAgent)
    assert asked == []
