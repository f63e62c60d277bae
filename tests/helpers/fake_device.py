"""A device without values: its tensors have shapes, types and a device, and mixing them with another device raises.

It is torch's FakeTensorMode on the device "meta". Reading a value raises too, because it would wait for a GPU. Pinned
memory and streams need a real device, so the transport here copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from common.rl.action_spec import ActionSpec
from common.rl.networks.model import TorchModel, build
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Settings
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.transport import Transport
from learner.parameters.weights import TargetNetwork, Weights

DEVICE = torch.device("meta")
SEVERAL = (DEVICE, torch.device("meta:1"), torch.device("meta:2"))
"""Three devices that torch takes for different ones."""
_MODE = FakeTensorMode(allow_non_fake_inputs=True)


class FakeTransport(Transport):
    """A transport whose copies to the host are zeros."""

    def __init__(self) -> None:
        super().__init__(DEVICE)

    def _up(self, memory: Tensor) -> Tensor:
        with _MODE:
            return torch.empty(memory.shape, dtype=torch.uint8, device=DEVICE)

    def _down(self, tensor: Tensor, memory: Tensor) -> Callable[[], None]:
        assert tensor.device == DEVICE
        memory.zero_()
        return lambda: None


def model_and_weights(
    settings: Settings, observation: ObservationSpec, action: ActionSpec
) -> tuple[TorchModel, Weights]:
    """Returns a model on the fake device, and its weights."""
    with _MODE, DEVICE:
        model = build(settings, observation, action)
        optimizer = make_optimizer(settings.optimizer, model.flat.vector, 0)
    target = None
    if model.target is not None:
        target = TargetNetwork(model.target.flat.vector, 1, model.frames, 0)
    weights = Weights(optimizer, model.extras, model.normalization, target=target)
    weights.transport = FakeTransport()
    return model, weights


def statistics_apart(model: TorchModel) -> None:
    """Gives the network a copy of its running statistics, as one on another device has."""
    for statistics in model._statistics():
        statistics.there = statistics.there.clone()


class NotHost(Transport):
    """A CPU that is treated as another device."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self.is_host = False
