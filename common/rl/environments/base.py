"""The interface of a batch of environments."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from common.errors import UnavailableError
from common.host.modules import error_text, log_traceback
from common.rl.action_spec import ActionSpec
from common.rl.environments.actions import ActionMap
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Environment

OLD_INTERFACE = (
    "it has the interface of Gym before 0.26; gymnasium's is reset(seed=..., options=...) -> (observation, info) and "
    "step(action) -> (observation, reward, terminated, truncated, info)"
)
_log = logging.getLogger(__name__)
Observations = NDArray[Any]
"""(B, *observation.shape) of observation.dtype."""
Actions = NDArray[Any]
"""(B, *action.shape) of action.dtype."""


class Step(NamedTuple):
    """The results of one step of the batch; the arrays are overwritten by the next `step` or `reset`."""

    observations: Observations
    rewards: NDArray[np.float32]
    """(B,): as the environment gave them, summed over repeated frames; neither scaled nor clipped."""
    terminated: NDArray[np.bool_]
    """(B,): the episode ended, not by a time limit."""
    truncated: NDArray[np.bool_]
    """(B,): the episode was cut off, by a time limit for instance; may be True together with terminated."""
    life_lost: NDArray[np.bool_] | None = None
    """(B,): a life was lost, an end for learning though the episode goes on; None: lives do not count."""

    @property
    def futureless(self) -> NDArray[np.bool_]:
        """(B,): where the discount is 0 for learning."""
        return self.terminated if self.life_lost is None else self.terminated | self.life_lost


class Clock(Protocol):
    """The clocks of the module `time`; a simulation has its own."""

    def monotonic(self) -> float: ...

    def perf_counter(self) -> float: ...


class Environments(ABC):
    """`count` environments of one kind, stepped together (gymnasium's `AutoresetMode.NEXT_STEP`).

    The step that ends an episode returns that episode's last observation. The next step is a dummy for that
    environment: the action is ignored, the observation is the first of the new episode, the reward is 0, and neither
    terminated nor truncated is set. The caller masks it (`EpisodeTracker.valid`).

    `reset` and `step` raise UnavailableError, naming the environment, when its own code raises.
    """

    count: int
    """B, the number of environments."""
    observation: ObservationSpec
    action: ActionSpec
    """The spec of the actions that `step` takes: choices counted from 0; numbers of a Box without bounds."""
    actions: ActionMap
    """Maps them to the environment's own actions. Like `space`, only in environments that `make` made."""
    space: gymnasium.Space[Any]
    """The space of one observation before it is stacked, in the environment's own form."""
    frames_per_step: int
    """Steps of the environment's own clock (emulator frames) per step of the agent."""
    pace: float = 0.0
    """Least seconds from one step to the next; 0: as fast as possible."""
    clock: Clock = time
    """The clock by which the environments are stepped."""
    masks_unused: bool = False
    """Whether the info of a reset had an action mask that the settings do not use."""

    @abstractmethod
    def reset(self, seed: int | None = None) -> Observations:
        """Start a new episode in every environment; return the first observations, (B, *shape).

        seed: of this batch, 0 or more; None: the one given at construction. The same seed gives the same episodes for
        the same actions; environments within one batch, and in batches with other seeds, differ.
        """

    @abstractmethod
    def step(self, actions: Actions) -> Step:
        """Take one action, (B, *action.shape), in every environment."""

    @abstractmethod
    def render(self) -> NDArray[np.uint8]:
        """Return the current picture of the first environment, (H, W, 3); needs render_mode="rgb_array" in `make`."""

    @abstractmethod
    def close(self) -> None:
        """Free all resources; nothing else may be called afterwards."""


class MakeEnvironments(Protocol):
    """The signature of `common.rl.environments.make.make`, without render_mode."""

    def __call__(self, section: Environment, *, num_envs: int, seed: int) -> Environments: ...


def failure(name: str, doing: str, error: Exception) -> UnavailableError:
    """Return the error to raise when an environment's own code raised `error` in `doing`, for instance "reset".

    The place where it was raised is logged once.
    """
    log_traceback(error)
    return UnavailableError(f"environment {name} failed in {doing}: {error_text(error)}")


def close_all(environments: Iterable[gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]], name: str) -> None:
    """Close environments. An error that their own code raises is only logged: nothing is asked of them afterwards."""
    first: Exception | None = None
    for environment in environments:
        try:
            environment.close()
        except Exception as error:
            first = first or error
    if first is not None:
        _log.warning("%s", failure(name, "close", first))


def env_seed(seed: int, index: int) -> int:
    """Return the seed of environment `index` in the batch of the actor with `seed`; both are 0 or more.

    It is hashed from the pair, so that actors with neighbouring seeds share no episodes, and has 31 bits, which every
    environment takes (ALE reads a C int, and some seed numpy's legacy generator).
    """
    return int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint32)[0] >> 1)
