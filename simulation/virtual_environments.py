"""Real environments whose steps take virtual time."""

import msgspec

from common.rl.environments.base import Actions, Environments, Observations, Step
from common.rl.environments.make import make
from common.settings.sections import Environment
from simulation.settings import Costs


class VirtualClock:
    """One process's clock, which runs ahead of the cluster's while the process works; used like the module `time`."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


class VirtualEnvironments(Environments):
    """Wraps a batch of environments: each step takes virtual time, and lasts at least to the pace's next beat."""

    def __init__(self, inner: Environments, clock: VirtualClock, seconds: float, pace: float) -> None:
        """seconds: duration of a step. pace: least time from one step to the next, as in `PacedEnvironments`."""
        self.count = inner.count
        self.observation = inner.observation
        self.action = inner.action
        self.frames_per_step = inner.frames_per_step
        self.pace = pace
        self.clock = clock
        self.steps = 0
        """Steps of single environments so far."""
        self.inner = inner
        self._clock = clock
        self._seconds = seconds
        self._due = clock.now

    @property
    def masks_unused(self) -> bool:  # type: ignore[override]
        return self.inner.masks_unused

    def reset(self, seed: int | None = None) -> Observations:
        observations = self.inner.reset(seed)
        self._due = self._clock.now
        return observations

    def step(self, actions: Actions) -> Step:
        step = self.inner.step(actions)
        self.steps += self.count
        self._due = self._clock.now = max(self._clock.now + self._seconds, self._due + self.pace)
        return step

    def render(self) -> Observations:
        return self.inner.render()

    def close(self) -> None:
        self.inner.close()


class VirtualMaker:
    """Makes an actor's environments, as a `MakeEnvironments`."""

    def __init__(self, clock: VirtualClock, costs: Costs, speed: float) -> None:
        self._clock = clock
        self._costs = costs
        self._speed = speed
        self.made: list[VirtualEnvironments] = []

    def __call__(self, section: Environment, *, num_envs: int, seed: int) -> VirtualEnvironments:
        inner = make(msgspec.structs.replace(section, step_seconds=0.0), num_envs=num_envs, seed=seed)
        seconds = (self._costs.batch_step + num_envs * self._costs.environment_step) / self._speed
        self.made.append(VirtualEnvironments(inner, self._clock, seconds, section.step_seconds))
        return self.made[-1]

    @property
    def steps(self) -> int:
        """Steps of single environments, over all batches made."""
        return sum(one.steps for one in self.made)
