"""Small environments for tests, most of which misbehave; `broken_environments:Id-v0` with this folder on sys.path."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Sequence, Tuple
from numpy.typing import NDArray


class Counter(gymnasium.Env[Any, Any]):
    """Observes (a number drawn per episode, steps so far), gives reward 1 + action, terminates after `length` steps."""

    metadata = {"render_modes": ["human"]}  # noqa: RUF012 gymnasium's own declaration

    def __init__(self, length: int = 5, render_mode: str | None = None) -> None:
        self.observation_space: gymnasium.Space[Any] = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space: gymnasium.Space[Any] = Discrete(2)
        self.render_mode = render_mode
        self.length = length
        self.episodes = 0
        self.lifetime = 0
        self.drawn = 0.0
        self.elapsed = 0

    def observe(self) -> Any:
        return np.array([self.drawn, self.elapsed], np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episodes += 1
        self.elapsed = 0
        self.drawn = float(self.np_random.random())
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.lifetime += 1
        self.elapsed += 1
        return self.observe(), 1.0 + float(action), self.elapsed >= self.length, False, {}


class NanReward(Counter):
    """The last reward of each `every`-th episode is NaN."""

    def __init__(self, every: int = 1, length: int = 5) -> None:
        super().__init__(length)
        self.every = every

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        bad = terminated and self.episodes % self.every == 0
        return observation, float("nan") if bad else reward, terminated, truncated, info


class RaisesMidEpisode(Counter):
    """Raises at each `every`-th step of its life."""

    def __init__(self, every: int = 50, length: int = 20) -> None:
        super().__init__(length)
        self.every = every

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        result = super().step(action)
        if self.lifetime % self.every == 0:
            raise RuntimeError("the emulator is gone")
        return result


class RaisesAtReset(Counter):
    """Raises at every reset."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        raise RuntimeError("no level to load")


class RaisesAtStart(Counter):
    """Raises when it is made."""

    def __init__(self) -> None:
        raise RuntimeError("the licence has run out,\nsee the manual")


class OldReset(Counter):
    """Its reset is Gym's before 0.26."""

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()[0]


class OldStep(Counter):
    """Its step is Gym's before 0.26."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class OldAnswer(Counter):
    """Its reset takes a seed, and gives the observation alone."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return [*super().reset(seed=seed)[0], 0.0]


class OddSpace(Counter):
    """Its action space is a Tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = Tuple((Discrete(2), Discrete(3)))


class OddObservation(Counter):
    """Its observation space is a Sequence in a Dict."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Dict(place=Discrete(2), told=Sequence(Discrete(2)))


class Grid(Counter):
    """A 4x4 grid from one corner to the other: cells count from 10, moves from 5; reward 1 at the goal."""

    def __init__(self, side: int = 4) -> None:
        super().__init__()
        self.observation_space = Discrete(side * side, start=10)
        self.action_space = Discrete(4, start=5)
        self.side = side
        self.place = [0, 0]

    def observe(self) -> Any:
        return 10 + self.place[0] * self.side + self.place[1]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.place = [0, 0]
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        axis, direction = divmod(int(action) - 5, 2)
        self.place[axis] = min(max(self.place[axis] + 2 * direction - 1, 0), self.side - 1)
        arrived = self.place == [self.side - 1, self.side - 1]
        return self.observe(), float(arrived), arrived, False, {}


class Picture(Counter):
    """Observes a (6, 7, 3) picture whose value at (y, x, c) is 40 y + 5 x + c + elapsed."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Box(0, 255, (6, 7, 3), np.uint8)

    def observe(self) -> NDArray[np.uint8]:
        y, x, c = np.indices((6, 7, 3))
        return (40 * y + 5 * x + c + self.elapsed).astype(np.uint8)


class Mixed(Counter):
    """A Dict is observed; the three numbers of a Box are taken, which must lie in it, and their sum is the reward."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Dict(
            drawn=Box(0, 1, (1,), np.float64),
            parity=Discrete(2, start=1),
            clock=Tuple((MultiDiscrete([2, 3]), Box(0, 255, (2, 2, 3), np.uint8))),
        )
        self.action_space = Box(np.array([-2, 0, -1], np.float32), np.array([2, 10, -0.5], np.float32))

    def observe(self) -> Any:
        clock = np.array([self.elapsed % 2, self.elapsed % 3])
        picture = np.full((2, 2, 3), 10 * self.elapsed, np.uint8)
        return {"clock": (clock, picture), "parity": 1 + self.elapsed % 2, "drawn": np.array([self.drawn])}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        return super().step(float(action.sum()) - 1.0)


for name, kind, limit in (
    ("Counter", Counter, 50),
    ("NanReward", NanReward, None),
    ("RaisesMidEpisode", RaisesMidEpisode, None),
    ("RaisesAtReset", RaisesAtReset, None),
    ("RaisesAtStart", RaisesAtStart, None),
    ("OldReset", OldReset, None),
    ("OldStep", OldStep, None),
    ("OldAnswer", OldAnswer, None),
    ("OddSpace", OddSpace, None),
    ("OddObservation", OddObservation, None),
    ("Grid", Grid, 100),
    ("Picture", Picture, None),
    ("Mixed", Mixed, None),
):
    gymnasium.register(id=f"{name}-v0", entry_point=kind, max_episode_steps=limit)

gymnasium.register(
    id="CounterOfPairs-v0",
    entry_point=Counter,
    max_episode_steps=6,
    kwargs={"length": 1000},
    additional_wrappers=(
        gymnasium.envs.registration.WrapperSpec(
            "MaxAndSkipObservation", "gymnasium.wrappers:MaxAndSkipObservation", {"skip": 2}
        ),
    ),
)
