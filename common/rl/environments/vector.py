"""Environments that come with a vector implementation of their own (gymnasium's `vector_entry_point`)."""

from typing import Any

import numpy as np
from gymnasium.spaces import MultiDiscrete
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from common.errors import A3cdError, UnavailableError
from common.rl.environments.actions import ActionMap, Bounds
from common.rl.environments.base import Actions, Environments, Observations, Step, close_all, env_seed, failure
from common.rl.environments.spaces import ObservationBuffer


class _Drawn(MultiDiscrete):
    """A space that does not check actions: they were drawn from it, and the check takes a tenth of CartPole's time."""

    def __init__(self, space: MultiDiscrete) -> None:
        super().__init__(space.nvec, dtype=space.dtype.type, start=space.start)

    def contains(self, x: Any) -> bool:  # noqa: ARG002
        return True


class VectorEnvironments(Environments):
    """A gymnasium VectorEnv in NEXT_STEP mode, as a batch."""

    def __init__(
        self,
        vector: VectorEnv[Any, Any, Any],
        *,
        name: str,
        seed: int,
        frames_per_step: int = 1,
        bounds: Bounds = "clip",
        lives: bool = False,
    ) -> None:
        """vector: closed with the batch. name: for error messages. frames_per_step: with which the vector was made.

        lives: report lost lives; the vector's info must have (B,) numbers named `lives`.
        Raises EnvironmentMissingError if the spaces are not supported.
        """
        self._vector = vector
        own = vars(vector.unwrapped)
        if isinstance(space := own.get("action_space"), MultiDiscrete):
            own["action_space"] = _Drawn(space)
        self._name = name
        self._seed = seed
        self.actions = ActionMap(vector.single_action_space, bounds)
        self.space = vector.single_observation_space
        self._buffer = ObservationBuffer(self.space, vector.num_envs, name)
        self._lives: NDArray[Any] | None = np.zeros(vector.num_envs) if lives else None

        self.count = vector.num_envs
        self.observation = self._buffer.spec
        self.action = self.actions.spec
        self.frames_per_step = frames_per_step

    def reset(self, seed: int | None = None) -> Observations:
        """Reset all environments, which draw from one generator or have consecutive seeds."""
        try:
            observations, info = self._vector.reset(seed=env_seed(self._seed if seed is None else seed, 0))
            self._buffer.put_all(observations)
        except A3cdError:
            raise
        except Exception as error:
            raise failure(self._name, "reset", error) from error
        if self._lives is not None:
            self._lives = np.array(info.get("lives", np.zeros(self.count)))
        return self._buffer.finished()

    def step(self, actions: Actions) -> Step:
        try:
            observations, rewards, terminated, truncated, info = self._vector.step(self.actions.own(actions))
            self._buffer.put_all(observations)
        except A3cdError:
            raise
        except Exception as error:
            raise failure(self._name, "step", error) from error
        lost = None
        if self._lives is not None:
            before, self._lives = self._lives, info["lives"].copy()
            lost = self._lives < before
        return Step(self._buffer.finished(), rewards.astype(np.float32, copy=False), terminated, truncated, lost)

    def render(self) -> NDArray[np.uint8]:
        """Return the first environment's newest observation, grey; raises UnavailableError if it is not a picture."""
        if self.observation.kind != "pixels":
            raise UnavailableError(f"environment {self._name} draws no pictures when stepped as a vector")
        newest: NDArray[np.uint8] = self._buffer.finished()[0, -1]
        return np.repeat(newest[:, :, None], 3, axis=2)

    def close(self) -> None:
        close_all([self._vector], self._name)
