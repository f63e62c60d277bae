from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from actor.agent.rendering import natural_rate, pictures
from actor.agent.trained_agent import TrainedAgent, open_run
from common.errors import EnvironmentMissingError, UnavailableError
from common.settings.sections import Environment

MakeRun = Callable[..., Path]


@pytest.fixture
def agent(trained_run: MakeRun) -> Iterator[TrainedAgent]:
    one = TrainedAgent(open_run(trained_run(), "best"), num_envs=1, seed=0, sampled=False, render_mode="rgb_array")
    yield one
    one.close()


def test_an_episode(agent: TrainedAgent) -> None:
    shown = list(pictures(agent, max_steps=100, seed=0))
    assert {picture.pixels.shape for picture in shown} == {(400, 600, 3)}
    assert [picture.length for picture in shown] == list(range(len(shown)))
    assert [picture.episode_return for picture in shown] == [float(n) for n in range(len(shown))]
    assert 9 <= len(shown) <= 11
    assert (shown[0].pixels != shown[-1].pixels).any()


def test_a_capped_episode(agent: TrainedAgent) -> None:
    shown = list(pictures(agent, max_steps=3, seed=0))
    assert [picture.length for picture in shown] == [0, 1, 2, 3]


def test_episodes_follow_their_seed(agent: TrainedAgent) -> None:
    first = [next(pictures(agent, max_steps=3, seed=seed)).pixels.copy() for seed in (0, 0, 1)]
    assert (first[0] == first[1]).all()
    assert (first[0] != first[2]).any()


@pytest.mark.parametrize(
    ("drawn", "reason"),
    [(None, r": render\(\) gave None, not a picture"), (RuntimeError("no fonts"), " failed in render: .*no fonts")],
)
def test_an_environment_that_cannot_draw(
    agent: TrainedAgent, monkeypatch: pytest.MonkeyPatch, drawn: Any, reason: str
) -> None:
    def render(environment: CartPoleEnv) -> Any:
        if drawn is not None:
            raise drawn

    monkeypatch.setattr(CartPoleEnv, "render", render)
    with pytest.raises(UnavailableError, match=f"environment CartPole-v1{reason}"):
        next(pictures(agent, max_steps=3, seed=0))


def test_an_environment_that_lacks_a_package_to_draw_with(agent: TrainedAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(EnvironmentMissingError, match=r"CartPole-v1 cannot draw: .*pip install 'a3cd\[window\]'"):
        next(pictures(agent, max_steps=3, seed=0))


def test_natural_rate() -> None:
    assert natural_rate(Environment(id="CartPole-v1")) == 50.0
    assert natural_rate(Environment(id="CartPole-v1", frame_skip=2)) == 25.0


class Rateless(CartPoleEnv):
    pass


@pytest.mark.parametrize("metadata", [None, {}, {"render_fps": None}, {"render_fps": 0}])
def test_natural_rate_of_a_class_that_says_nothing(monkeypatch: pytest.MonkeyPatch, metadata: Any) -> None:
    monkeypatch.setattr(Rateless, "metadata", metadata)
    gymnasium.register("Rateless-v0", entry_point=Rateless)
    try:
        assert natural_rate(Environment(id="Rateless-v0")) == 30.0
    finally:
        del gymnasium.registry["Rateless-v0"]


def test_natural_rate_of_an_environment_that_says_nothing() -> None:
    gymnasium.register("Rateless-v0", entry_point=lambda **keywords: CartPoleEnv(**keywords))
    try:
        assert natural_rate(Environment(id="Rateless-v0")) == 30.0
    finally:
        del gymnasium.registry["Rateless-v0"]
