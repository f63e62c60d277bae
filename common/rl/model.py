"""A run's network as those use it who act and who compute gradients, whatever computes it: arrays in, arrays out."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from common.errors import ConfigurationError
from common.rl.action_spec import ActionSpec
from common.rl.algorithms.registry import METHODS
from common.rl.arrays import Array
from common.rl.network_kind import resolve
from common.rl.normalization import Normalization
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Settings

Floats = NDArray[np.float32]
Layout = tuple[tuple[str, tuple[int, ...]], ...]
"""Name and shape of each parameter, in the order of the flat vector."""


class Model(ABC):
    """A network with its parameters in one vector and their gradient in another.

    Its outputs are (N, action.width + 1) for N observations: the policy's numbers, last the value.
    """

    action: ActionSpec
    """As the network decides them."""
    state_size: int
    """Numbers carried from step to step of an episode; 0: feed-forward."""
    size: int
    """Number of parameters."""
    hash: str
    """16 hexadecimal digits, different for different networks."""

    def __init__(self, extras: Floats, normalization: Normalization, target: Self | None) -> None:
        self.extras = extras
        """(E,): numbers that acting needs and no gradient changes; they travel with the parameters."""
        self.normalization = normalization
        """The layout of the first of the extras."""
        self.target = target
        """The target network, of algorithms that have one; the learner sets its parameters."""

    @property
    def statistics(self) -> Floats:
        """Those of the normalization; a view."""
        return self.extras[: self.normalization.size]

    @property
    def frames(self) -> Floats:
        """(1,), the last of the extras where there is a target network: frames of the run up to these weights."""
        return self.extras[-1:]

    @property
    def vectors(self) -> tuple[Floats, ...]:
        """The parameters as they travel: the network's, then the target network's. Views, of a network on the CPU."""
        return (self.vector,) if self.target is None else (self.vector, self.target.vector)

    @property
    @abstractmethod
    def vector(self) -> Floats:
        """The parameters (size,); a view, of a network on the CPU."""

    @property
    @abstractmethod
    def gradient(self) -> Floats:
        """That of `backward`, (size,); a view, of a network on the CPU."""

    @abstractmethod
    def step(self, observations: NDArray[Any], state: Floats) -> tuple[Floats, Floats]:
        """Return outputs (B, action.width + 1), which are valid until the next call, and the next state.

        observations: (B, *shape). state: (B, state_size), zeros where an episode starts.
        """

    @abstractmethod
    def outputs(self, rollout: Rollout) -> Array:
        """Return outputs ((T + 1) B, action.width + 1) on a rollout's observations, time first; no `backward` follows.

        They are where the rollout is: numpy's, or on the network's device. Raises ValueError where a recurrent network
        is not told the state before the rollout.
        """

    @abstractmethod
    def forward(self, rollout: Rollout) -> Array:
        """As `outputs`, for `backward`: the rollout must not change until then."""

    @abstractmethod
    def backward(self, derivative: Array) -> None:
        """Set `gradient` to that of a loss with this derivative by the outputs of the last `forward`; once for each."""

    @abstractmethod
    def clip_gradient(self, max_norm: float) -> Any:
        """Scale `gradient` so that its L2 norm is at most `max_norm` (0: no limit); return the norm it had.

        A float; after a `forward` on a device's rollout a tensor there.
        """


def fingerprint(architecture: str, layout: Layout) -> str:
    """The hash of a network. architecture: what computes differently and has parameters of the same shapes."""
    return hashlib.sha256(repr((architecture, layout)).encode()).hexdigest()[:16]


def plan(
    settings: Settings, observation: ObservationSpec, action: ActionSpec
) -> tuple[ActionSpec, Normalization, Floats]:
    """What a model of the run has whoever computes it: actions as the network decides them, normalization, extras.

    Raises ConfigurationError where the network or the algorithm does not fit the observations or the actions.
    """
    observation = observation.bare
    values = METHODS[settings.algorithm.kind].has_target
    if values and action.kind != "discrete":
        space = action.kind.title().replace("-", "")
        raise ConfigurationError(
            f'algorithm.kind = "{settings.algorithm.kind}" needs a Discrete action space, not {space}: it learns a '
            "value for each action"
        )
    section = settings.network
    pictures = resolve(section.kind, observation).startswith("conv-")
    if section.normalize and not pictures and observation.kind != "box":
        raise ConfigurationError(
            "network.normalize = true is for observations of numbers (box) and for pictures before a conv network, not "
            f"{observation.kind} before {section.kind}: use false"
        )
    decided = replace(action, log_std=section.log_std) if action.kind == "box" else action
    numbers = observation.size if section.normalize and not pictures else 0
    normalization = Normalization(numbers, settings.environment.reward_normalize)
    return decided, normalization, np.concatenate([normalization.extras(), np.zeros(int(values), np.float32)])
