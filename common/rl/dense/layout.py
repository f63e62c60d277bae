"""The definition of a dense network: its layers, and the order of their parameters in the flat vector.

The learner's network (common/rl/networks/dense.py, in torch) and an actor's (common/rl/dense/network.py, in numpy) are
both built from this, so that they are one network with one hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from common.rl.action_spec import ActionSpec
from common.rl.model import Layout
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Network

CHUNK = 4096
"""Largest number of observations that are computed at once."""


@dataclass(frozen=True)
class TrunkLayout:
    """Dense layers on a flattened observation, with an activation after each."""

    observation: ObservationSpec
    hidden: tuple[int, ...]
    """Units of each layer."""
    activation: Literal["relu", "tanh"]
    input_scale: float
    """network.input_scale."""

    @property
    def scale(self) -> float:
        """The factor on a flattened observation; pixels are scaled to 0..1 instead."""
        return self.input_scale if self.observation.kind == "box" else 1.0

    @property
    def features(self) -> int:
        return self.hidden[-1]

    @property
    def architecture(self) -> str:
        return f"dense {self.observation.kind} {self.activation} x{self.input_scale:g}"

    def layers(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, units and inputs of each layer; its parameters are NAME_weight (units, inputs) and NAME_bias."""
        inputs = self.observation.size
        for index, units in enumerate(self.hidden):
            yield f"dense{index}", units, inputs
            inputs = units


@dataclass(frozen=True)
class DenseLayout:
    """Policy and value as one linear layer on a shared trunk, or each on a trunk of its own."""

    trunk: TrunkLayout
    action: ActionSpec
    shared: bool
    normalized: bool
    """Whether running statistics normalise the observations first."""
    masked: bool = False
    """Whether observations end with an action mask (`common.rl.action_masks`); `trunk.observation` is without it."""

    @property
    def architecture(self) -> str:
        around = ("masked " if self.masked else "") + ("normalized " if self.normalized else "")
        return around + heads(self.trunk.architecture, self.shared, self.action)

    @property
    def parameters(self) -> Layout:
        """In the order of torch's `Module.named_parameters`: the network's own parameters, then those of its parts."""
        own: list[tuple[str, tuple[int, ...]]] = [
            ("head_weight", (self.action.outputs + 1, self.trunk.features)),
            ("head_bias", (self.action.outputs + 1,)),
        ]
        if self.action.outputs < self.action.width:
            own.append(("log_std", (self.action.count,)))
        for number in range(1 if self.shared else 2):
            for name, units, inputs in self.trunk.layers():
                own.append((f"trunks.{number}.{name}_weight", (units, inputs)))
                own.append((f"trunks.{number}.{name}_bias", (units,)))
        around = (self.normalized + self.masked) * "inner."
        return tuple((around + name, shape) for name, shape in own)


def trunk_layout(section: Network, observation: ObservationSpec) -> TrunkLayout:
    return TrunkLayout(observation, tuple(section.hidden), section.activation, section.input_scale)


def heads(trunk: str, shared: bool, action: ActionSpec) -> str:
    """Return the architecture of policy and value on trunks of the architecture `trunk`."""
    return f"{trunk} {'shared' if shared else 'separate'}{action.suffix}"
