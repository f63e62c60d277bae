"""The interface of a run's network for acting and for computing gradients, in numpy or torch: arrays in, arrays out."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
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

BACKGROUND = "background"
"""Name of the background in a checkpoint, beside the optimizer's tensors."""
Floats = NDArray[np.float32]
Layout = tuple[tuple[str, tuple[int, ...]], ...]
"""Name and shape of each parameter, in the order of the flat vector."""


class Model(ABC):
    """A network with its parameters in one vector and their gradient in another.

    Its outputs are (N, action.width + 1) for N observations: the policy's numbers, and last the value.
    """

    action: ActionSpec
    """The spec of the actions, with the network's `log_std`."""
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
        """What is normalised; the running statistics come first in the extras, then the background."""
        self.target = target
        """The target network of an algorithm that has one, else None; the learner sets its parameters."""

    @property
    def statistics(self) -> Floats:
        """The running statistics of the normalization, the first of the extras; a view."""
        return self.extras[: self.normalization.size]

    @property
    def background(self) -> Floats:
        """The mean picture (C * H * W), then 1 / the deviation from it; empty where none is subtracted. A view."""
        return self.normalization.background(self.extras)

    def load_background(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take over the background among a checkpoint's tensors; raises ConfigurationError if it is of another size."""
        saved = tensors.get(BACKGROUND, np.zeros(0, np.float32))
        if saved.shape != self.background.shape:
            raise ConfigurationError(
                f"the checkpoint's background has {saved.size} numbers, not {self.background.size}"
            )
        self.background[:] = saved

    @property
    def frames(self) -> Floats:
        """(1,): frames of the run up to these weights. It is the last of the extras, only with a target network."""
        return self.extras[-1:]

    @property
    def vectors(self) -> tuple[Floats, ...]:
        """The parameters that are sent: the network's, then the target network's. Views; only on the CPU."""
        return (self.vector,) if self.target is None else (self.vector, self.target.vector)

    @property
    @abstractmethod
    def vector(self) -> Floats:
        """The parameters (size,); a view. Only of a network on the CPU."""

    @property
    @abstractmethod
    def gradient(self) -> Floats:
        """The gradient (size,) of the last `backward`; a view. Only of a network on the CPU."""

    @abstractmethod
    def step(self, observations: NDArray[Any], state: Floats) -> tuple[Floats, Floats]:
        """Return outputs (B, action.width + 1), which are valid until the next call, and the next state.

        observations: (B, *shape). state: (B, state_size), zeros where an episode starts.
        """

    @abstractmethod
    def outputs(self, rollout: Rollout) -> Array:
        """Return outputs ((T + 1) B, action.width + 1) for a rollout's observations, time first; no `backward` follows.

        They are where the rollout is: numpy arrays, or tensors on the network's device. Raises ValueError if a
        recurrent network's rollout lacks the state before its first observation.
        """

    @abstractmethod
    def forward(self, rollout: Rollout) -> Array:
        """Return the same as `outputs`, for a `backward` that follows; the rollout must not change until then."""

    @abstractmethod
    def backward(self, derivative: Array) -> None:
        """Set `gradient`; call at most once after each `forward`.

        derivative: of the loss, with respect to the outputs of the last `forward`.
        """

    @abstractmethod
    def clip_gradient(self, max_norm: float) -> Any:
        """Scale `gradient` so that its L2 norm is at most `max_norm` (0: no limit); return the norm it had.

        The norm is a float or, after a `forward` on a rollout of tensors, a tensor on their device.
        """


def fingerprint(architecture: str, layout: Layout) -> str:
    """Return the hash of a network. architecture: text that tells apart networks with parameters of equal shapes."""
    return hashlib.sha256(repr((architecture, layout)).encode()).hexdigest()[:16]


def plan(
    settings: Settings, observation: ObservationSpec, action: ActionSpec
) -> tuple[ActionSpec, Normalization, Floats]:
    """Return what numpy's and torch's model of a run have alike: actions with their `log_std`, normalization, extras.

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
    size = observation.size if section.normalize else 0
    numbers, pixels = (0, size) if pictures else (size, 0)
    normalization = Normalization(numbers, settings.environment.reward_normalize, pixels)
    parts = normalization.extras(), normalization.no_background, np.zeros(int(values), np.float32)
    return decided, normalization, np.concatenate(parts)
