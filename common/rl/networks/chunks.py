"""How many observations a network computes at once, and whether it keeps the graph of all of them for the way back."""

import torch
from torch import Tensor

from common.rl.networks.heads import PolicyValue

KEPT_CHUNKS = 16
"""On a CPU up to this many chunks keep their graph (0.2 MB a frame for conv nets); beyond, there is a second pass."""
SHARE = 0.5
"""Of a device's free memory, for graphs; the way back needs some, and so do the batch and the kernels' workspaces."""
PROBE = 4
"""Observations that the graph's memory is measured with."""
OTHER_DEVICE_BYTES = 2**30
"""Of a device that does not say how much memory is free."""


class Chunks:
    """Of a network on a CPU chunks that its cache holds; elsewhere chunks of as much as the device's memory holds."""

    def __init__(self, network: PolicyValue, device: torch.device) -> None:
        self._network = network
        self._device = device
        self._most = 0
        self._last = 0
        """The size of the last chunks."""

    def of(self, observations: Tensor) -> tuple[int, bool]:
        """The size of a chunk for these observations (N, *shape), and whether all their graphs can be kept."""
        rows = len(observations)
        if self._device.type == "cpu":
            # Of the same size and not the last a small one: each costs a pass over the parameters and their gradient.
            parts = max(1, round(rows / self._network.chunk))
            return -(-rows // parts), parts <= KEPT_CHUNKS
        if not self._most:
            self._most = max(1, int(SHARE * free_bytes(self._device) / graph_bytes(self._network, observations)))
        self._last = min(rows, self._most) or 1
        return self._last, rows <= self._most

    def halve(self) -> int:
        """The device had no memory for the last chunks: the size of those to come, 0 where these were of one."""
        if self._last > 1:
            self._most = self._last // 2
        return self._most if self._last > 1 else 0


def free_bytes(device: torch.device) -> int:
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else OTHER_DEVICE_BYTES


def graph_bytes(network: PolicyValue, observations: Tensor) -> float:
    """Bytes that one of the observations (N, *shape) takes in a graph, and in the largest part of a pass."""
    probe = observations[:PROBE]
    parameters = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    kept: dict[int, int] = {}

    def noted(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in parameters:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(noted, lambda tensor: tensor):
        features = network.features(probe)
    return max(1.0, sum(kept.values()) / len(probe) + features.nbytes / len(probe))
