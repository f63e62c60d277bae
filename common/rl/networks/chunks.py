"""How many observations a network computes at once, and whether it keeps all their graphs for the backward pass."""

import torch
from torch import Tensor

from common.rl.networks.heads import PolicyValue

KEPT_CHUNKS = 16
"""On a CPU, up to this many chunks keep their graph (conv nets: 0.2 MB a frame of 4x84x84); beyond, a second pass."""
SHARE = 0.5
"""Fraction of a device's free memory for graphs; the backward pass, the batch and kernels' workspaces need the rest."""
PROBE = 4
"""Observations with which the memory of a graph is measured."""
OTHER_DEVICE_BYTES = 2**30
"""Free memory assumed of a device that does not report it."""


class Chunks:
    """Decides the size of chunks: on a CPU about the network's own, elsewhere what fits the device's memory."""

    def __init__(self, network: PolicyValue, device: torch.device) -> None:
        self._network = network
        self._device = device
        self._most = 0
        self._last = 0
        """The size of the last chunks."""

    def of(self, observations: Tensor) -> tuple[int, bool]:
        """Return the size of a chunk for these observations (N, *shape), and whether all their graphs can be kept."""
        rows = len(observations)
        if self._device.type == "cpu":
            # Chunks of nearly equal size: even a small one costs a pass over the parameters and their gradient.
            parts = max(1, round(rows / self._network.chunk))
            return -(-rows // parts), parts <= KEPT_CHUNKS
        if not self._most:
            self._most = max(1, int(SHARE * free_bytes(self._device) / graph_bytes(self._network, observations)))
        self._last = min(rows, self._most) or 1
        return self._last, rows <= self._most

    def halve(self) -> int:
        """Halve the chunks, since the device had no memory for the last; return the new size, 0 if it was 1 already."""
        self._last //= 2  # the next attempt may fail before it asks for a size
        self._most = max(1, self._last)
        return self._last


def free_bytes(device: torch.device) -> int:
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else OTHER_DEVICE_BYTES


def graph_bytes(network: PolicyValue, observations: Tensor) -> float:
    """Return the bytes that one of the observations (N, *shape) takes: in a graph, and its features."""
    probe = observations[:PROBE]
    parameters = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def noted(tensor: Tensor) -> None:
        # Nothing goes back through this graph. A tensor returned here would keep the graph, and the graph the tensor:
        # it would never be freed, nor would the parameters' nodes, which must not outlive a pass (gradient_graphs.py).
        storage = tensor.untyped_storage()
        if storage._cdata not in parameters:
            kept[storage._cdata] = storage

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(noted, lambda nothing: nothing):
        features = network.features(probe)
    return max(1.0, sum(storage.nbytes() for storage in kept.values()) / len(probe) + features.nbytes / len(probe))
