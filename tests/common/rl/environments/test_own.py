"""Environments and wrappers of one's own, by their classes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from common.errors import EnvironmentMissingError
from common.rl.environments import own
from common.rl.environments.make import make
from common.settings.sections import Environment

HERE = __name__
COUNTER = "broken_environments:Counter"


class Doubled(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, environment: gymnasium.Env[Any, Any], factor: float = 2.0) -> None:
        super().__init__(environment)
        self.factor = factor

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, self.factor * float(reward), terminated, truncated, info


class OneMore(gymnasium.RewardWrapper[Any, Any]):
    def reward(self, reward: Any) -> Any:
        return float(reward) + 1


def function(environment: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    raise AssertionError("only classes are called")


def rewards(*wrappers: str, **changed: Any) -> float:
    """Of a first step, which gives 1 by itself."""
    section = Environment(id=COUNTER, wrappers=[f"{HERE}:{name}" for name in wrappers], **changed)
    environments = make(section, num_envs=2, seed=0)
    environments.reset()
    first, second = environments.step(np.zeros(2, np.int64)).rewards
    assert first == second
    return float(first)


def test_wrappers_are_put_round_in_their_order() -> None:
    assert rewards() == 1
    assert rewards("Doubled") == 2
    assert rewards("Doubled", "OneMore") == 3
    assert rewards("OneMore", "Doubled") == 4
    assert rewards("OneMore", "Doubled", wrapper_options={"Doubled": {"factor": 5.0}}) == 10
    assert rewards("OneMore", frame_skip=2) == 4, "each frame is wrapped"


def test_an_environment_with_its_own_vector_implementation_is_wrapped_too() -> None:
    section = Environment(id="CartPole-v1", wrappers=[f"{HERE}:Doubled"])
    environments = make(section, num_envs=8, seed=0)
    environments.reset()
    assert environments.step(np.zeros(8, np.int64)).rewards.tolist() == [2.0] * 8


@pytest.mark.parametrize(("given", "steps"), [(0, 500), (7, 7)])
def test_a_wrapper_may_ask_for_the_time_limit_which_holds(given: int, steps: int) -> None:
    """TimeAwareObservation does, and shows how much of it has passed."""
    section = Environment(
        id="CartPole-v1",
        wrappers=["gymnasium.wrappers:TimeAwareObservation"],
        wrapper_options={"TimeAwareObservation": {"normalize_time": True}},
        max_episode_steps=given,
    )
    environments = make(section, num_envs=1, seed=0)
    environments.reset()
    assert environments.step(np.zeros(1, np.int64)).observations[0, -1] == pytest.approx(1 / steps)
    if given:
        for _ in range(given - 1):
            step = environments.step(np.arange(1))
        assert step.truncated[0]


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        (f"{HERE}:Doubble", "has no gymnasium.Wrapper Doubble; did you mean Doubled"),
        (f"{HERE}:function", "has no gymnasium.Wrapper function; it has Doubled, OneMore"),
        (f"{HERE}:HERE", "has no gymnasium.Wrapper HERE"),
        ("broken_environments:Counter", "has no gymnasium.Wrapper Counter"),
        ("no_such_module:Any", "environment.wrappers: no_such_module:Any: no module named no_such_module"),
    ],
)
def test_nothing_but_a_wrapper_is_taken(named: str, problem: str) -> None:
    with pytest.raises(EnvironmentMissingError, match=problem):
        make(Environment(id=COUNTER, wrappers=[named]), num_envs=1, seed=0)


def test_a_wrapper_that_cannot_be_made_is_named() -> None:
    with pytest.raises(EnvironmentMissingError, match=rf"wrappers: {HERE}:Doubled: TypeError: .*'facto'"):
        rewards("Doubled", wrapper_options={"Doubled": {"facto": 1.0}})


def test_what_a_module_has() -> None:
    module = own.imported("broken_environments", "it")
    there = own.environments(module)
    assert {"Counter", "Grid-v0", "Counter-v0"} <= set(there)
    assert own.class_spec(module, "np") is None
    assert own.class_spec(module, "Sequence") is None, "a class of another kind"
