"""Builds the network of the `[network]` section."""

import torch
from torch import Tensor

from common.rl.action_spec import ActionSpec
from common.rl.dense.layout import trunk_layout
from common.rl.network_kind import resolve
from common.rl.networks import conv, own
from common.rl.networks.conv import ConvTrunk
from common.rl.networks.dense import DenseTrunk
from common.rl.networks.heads import Heads, PolicyValue
from common.rl.networks.impala import ImpalaTrunk
from common.rl.networks.recurrent import Recurrent
from common.rl.networks.trunk import Trunk
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Network

_CONVOLUTIONS = {"conv-a3c": conv.A3C, "conv-students": conv.STUDENTS, "conv-nature": conv.NATURE}


def build(
    section: Network, observation: ObservationSpec, action: ActionSpec, seed: int, background: Tensor | None = None
) -> PolicyValue:
    """Build the network of a run; the same arguments give the same parameters on every host.

    background: of pictures, as `PictureTrunk` takes it.
    Raises ConfigurationError if it does not take such observations, or as `own.build` for a module:Class.
    """
    kind = resolve(section.kind, observation)
    if ":" in kind:
        return own.build(kind, observation, action, seed)
    generator = torch.Generator().manual_seed(seed)

    def trunk() -> Trunk:
        if kind == "dense":
            return DenseTrunk(trunk_layout(section, observation), generator)
        if kind == "conv-impala":
            return ImpalaTrunk(observation, generator, background)
        convolutions, units = _CONVOLUTIONS[kind]
        return ConvTrunk(observation, convolutions, units, generator, background)

    if section.lstm:
        return Recurrent(trunk(), section.lstm, action, generator)
    return Heads([trunk()] if section.shared else [trunk(), trunk()], action, generator)
