"""Environments stepped one after the other in plain Python, if there is no vector implementation.

Faster than gymnasium's SyncVectorEnv, which gathers infos, copies observations and checks spaces on each step.
"""

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import FlattenObservation
from numpy.typing import NDArray

from common.errors import A3cdError, EnvironmentMissingError, UnavailableError
from common.rl.action_masks import join, masked
from common.rl.environments.actions import ActionMap, Bounds
from common.rl.environments.base import (
    OLD_INTERFACE,
    Actions,
    Environments,
    Observations,
    Step,
    close_all,
    env_seed,
    failure,
)
from common.rl.environments.frames import Camera
from common.rl.environments.masks import KEY, ActionMasks, check, none
from common.rl.environments.spaces import COMPOSED, ObservationBuffer

_UNPACKING = (str(Path(__file__).parent), str(Path(gymnasium.__file__).parent))
"""Folders of the code that unpacks what an environment returns: ours and gymnasium's wrappers."""


class SequentialEnvironments(Environments):
    """A loop over single environments, into arrays allocated once."""

    def __init__(
        self,
        environments: Sequence[gymnasium.Env[Any, Any]],
        *,
        name: str,
        seed: int,
        frames_per_step: int = 1,
        limit: int = 0,
        camera: Camera | None = None,
        bounds: Bounds = "clip",
        masks: bool = False,
    ) -> None:
        """environments: closed with the batch. name: for error messages. frames_per_step: times an action is repeated.

        limit: steps after which an episode is truncated (a TimeLimit without the cost of a wrapper); 0: none.
        camera: its pictures replace the observations.
        masks: observations end with the action masks in info (`common.rl.action_masks`).
        Raises EnvironmentMissingError if the spaces are not supported, or there is no mask; ConfigurationError if masks
        do not go with the spaces.
        """
        self._environments = list(environments)
        self._steps = [environment.step for environment in environments]
        self._name = name
        self._seed = seed
        self._limit = limit or sys.maxsize
        self._camera = camera
        self.actions = ActionMap(environments[0].action_space, bounds)
        space = camera.space if camera else environments[0].observation_space
        self._buffer = ObservationBuffer(space, len(environments), name)
        self.space = space
        first = environments[0]
        if isinstance(first, FlattenObservation) and isinstance(first.env.observation_space, COMPOSED):
            self.space = first.env.observation_space

        self.count = len(environments)
        self.observation = self._buffer.spec
        self.action = self.actions.spec
        self.frames_per_step = frames_per_step
        self._masks: ActionMasks | None = None
        if masks:
            check(name, self.observation, self.action)
            self._masks = ActionMasks(self.action, self.count, name)
            self.observation = masked(self.observation, self.action)
            self._require_masks()
        self._plain = self.action.kind == "discrete"  # Python's own integers, as these environments expect them

        self._elapsed = [0] * self.count
        self._ended = [False] * self.count
        self._some_ended = False
        """Whether an episode ended in the last step."""
        self._rewards = np.zeros(self.count, np.float32)
        self._terminated = np.zeros(self.count, np.bool_)
        self._truncated = np.zeros(self.count, np.bool_)

    def reset(self, seed: int | None = None) -> Observations:
        seed = self._seed if seed is None else seed
        try:
            for index in range(self.count):
                self._begin(index, env_seed(seed, index))
        except A3cdError:
            raise
        except Exception as error:
            raise self._failure("reset", error) from error
        return self._finished()

    def step(self, actions: Actions) -> Step:
        rewards, terminated, truncated, masks = self._rewards, self._terminated, self._truncated, self._masks
        if self._some_ended:
            terminated.fill(False)
            truncated.fill(False)
            self._some_ended = False
        ended, elapsed, put, camera = self._ended, self._elapsed, self._buffer.put, self._camera
        try:
            own = actions if self.actions.same else self.actions.own(actions)
            for index, action in enumerate(own.tolist() if self._plain else own):
                if ended[index]:
                    self._begin(index)
                    rewards[index] = 0.0
                    continue
                observation, reward, over, cut, info = self._steps[index](action)
                put(index, camera.picture(self._environments[index]) if camera else observation)
                rewards[index] = reward
                elapsed[index] += 1
                if over or cut or elapsed[index] >= self._limit:
                    ended[index] = self._some_ended = True
                    terminated[index] = over
                    truncated[index] = cut or elapsed[index] >= self._limit
                if masks is not None:
                    masks.put(index, info, ended=ended[index], after="step")
        except A3cdError:
            raise
        except Exception as error:
            raise self._failure("step", error) from error
        return Step(self._finished(), rewards, terminated, truncated)

    def render(self) -> NDArray[np.uint8]:
        drawn = self._environments[0].render()
        picture = np.asarray(drawn)
        if picture.ndim != 3 or picture.shape[2] != 3:
            given = "None" if drawn is None else f"an array of shape {picture.shape}"
            raise UnavailableError(f"environment {self._name}: render() gave {given}, not a picture (H, W, 3)")
        return picture.astype(np.uint8, copy=False)

    def close(self) -> None:
        close_all(self._environments, self._name)

    def _require_masks(self) -> None:
        try:
            _, info = self._environments[0].reset(seed=env_seed(self._seed, 0))
            given = KEY in info
        except Exception:  # reported when the environments are reset to play
            return
        if not given:
            raise EnvironmentMissingError(none("reset"))

    def _failure(self, doing: str, error: Exception) -> A3cdError:
        """Return the error to raise: a lasting one if the environment's result does not unpack as gymnasium's do."""
        raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
        unpacking = isinstance(error, TypeError | ValueError) and "unpack" in str(error)
        if unpacking and raised_in.startswith(_UNPACKING):
            return EnvironmentMissingError(f"environment {self._name}: {OLD_INTERFACE} ({doing}: {error})")
        return failure(self._name, doing, error)

    def _begin(self, index: int, seed: int | None = None) -> None:
        environment = self._environments[index]
        observation, info = environment.reset(seed=seed)
        self._buffer.put(index, self._camera.picture(environment) if self._camera else observation)
        if self._masks is not None:
            self._masks.put(index, info, ended=False, after="reset")
        elif isinstance(info, dict) and KEY in info:
            self.masks_unused = True
        self._elapsed[index] = 0
        self._ended[index] = False

    def _finished(self) -> Observations:
        observations = self._buffer.finished()
        return observations if self._masks is None else join(observations, self._masks.array)
