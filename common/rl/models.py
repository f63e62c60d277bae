"""The model that an actor uses: in numpy if the network is dense, so that the actor needs no torch; else in torch."""

from __future__ import annotations

from common.errors import TorchMissingError
from common.rl.action_spec import ActionSpec
from common.rl.dense import model as dense
from common.rl.model import Model
from common.rl.network_kind import resolve
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Settings


def build(settings: Settings, observation: ObservationSpec, action: ActionSpec, *, own_process: bool = True) -> Model:
    """Return the model of a run; raises as `common.rl.networks.model.build`.

    own_process: nothing else computes in this process, so torch is set up for networks of this size.
    Also raises TorchMissingError if the network needs torch, which is not installed.
    """
    if resolve(settings.network.kind, observation) == "dense" and not settings.network.lstm:
        return dense.build(settings, observation, action)
    try:
        import torch
    except ModuleNotFoundError as error:
        raise TorchMissingError(f"the run's network ({settings.network.kind})") from error
    from common.rl.networks import model

    if own_process:
        # More threads do not speed up networks this small, and slow down a training on the same cores.
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
    return model.build(settings, observation, action)
