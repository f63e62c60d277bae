from __future__ import annotations

import math
from typing import Any

import gymnasium
import pytest

from common.rl.environments.tolerant import MOST_FAILURES, TolerantEnvironment


class Flaky(gymnasium.Env[Any, Any]):
    """Observes the number of calls; raises at those in `bad`; gives `reward`."""

    def __init__(self, *bad: int) -> None:
        self.bad = bad
        self.reward = 1.0
        self.calls = 0
        self.seeds: list[int | None] = []

    def _call(self) -> int:
        self.calls += 1
        if self.calls in self.bad:
            raise RuntimeError(f"call {self.calls}")
        return self.calls

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        return self._call(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._call(), self.reward, False, False, {}


def tolerant(*bad: int) -> tuple[TolerantEnvironment, Flaky, list[str]]:
    flaky, told = Flaky(*bad), list[str]()
    return TolerantEnvironment(flaky, lambda doing, error: told.append(f"{doing}: {error}")), flaky, told


def test_a_step_that_raises_cuts_the_episode_off_at_the_last_observation() -> None:
    environment, _, told = tolerant(3)
    environment.reset()
    assert environment.step(0) == (2, 1.0, False, False, {})
    assert environment.step(0) == (2, 0.0, False, True, {})
    assert told == ["step: call 3"]
    assert environment.reset() == (4, {})
    assert environment.step(0)[0] == 5


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1e39])
def test_a_reward_that_is_no_number_cuts_the_episode_off_and_thrice_in_a_row_is_raised(reward: float) -> None:
    environment, flaky, told = tolerant()
    environment.reset()
    environment.step(0)
    flaky.reward = reward
    assert environment.step(0) == (2, 0.0, False, True, {})
    assert told == [f"step: the reward {reward} is no finite number"]
    environment.reset()
    assert environment.step(0) == (4, 0.0, False, True, {})
    environment.reset()
    with pytest.raises(ValueError, match="no finite number"):
        environment.step(0)


def test_the_first_step_that_raises_gives_the_first_observation() -> None:
    environment, _, _ = tolerant(2)
    environment.reset()
    assert environment.step(0)[0] == 1


def test_a_reset_that_raises_is_tried_again_with_another_seed() -> None:
    environment, flaky, told = tolerant(1)
    assert environment.reset(seed=7) == (2, {})
    assert flaky.seeds == [7, None]
    assert told == ["reset: call 1"]


def test_failures_in_a_row_are_raised_and_a_step_that_goes_well_ends_the_row() -> None:
    assert MOST_FAILURES == 3
    environment, _, told = tolerant(2, 4, 7, 9, 11, 13)
    environment.reset()  # call 1
    environment.step(0)  # 2: raises
    environment.reset()
    environment.step(0)  # 4: raises
    environment.reset()
    environment.step(0)  # 6: well
    environment.step(0)  # 7: raises
    environment.reset()
    environment.step(0)  # 9: raises
    environment.reset()
    with pytest.raises(RuntimeError, match="call 11"):
        environment.step(0)
    assert told == ["step: call 2", "step: call 4", "step: call 7", "step: call 9"]


def test_a_reset_that_always_raises_is_raised() -> None:
    environment, flaky, told = tolerant(*range(1, 100))
    with pytest.raises(RuntimeError, match="call 3"):
        environment.reset()
    assert flaky.calls == 3
    assert len(told) == 2
