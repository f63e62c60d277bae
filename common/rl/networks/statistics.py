"""Statistics by which a network normalises what it sees: a part of the model's extras."""

import torch
from torch import Tensor


class Statistics:
    """A part of a model's extras, which may change in place, and the copy of it on the device of the passes."""

    def __init__(self, shared: Tensor) -> None:
        self.shared = shared
        """A view of the extras, on the CPU."""
        self.there = shared
        """As they were at the last `renew`, on its device; a CPU always has those of now."""

    def renew(self, device: torch.device) -> None:
        """Take over the statistics as they are now, for passes on this device."""
        now = on_device(self.shared, device)
        if self.there.device == now.device:
            self.there.copy_(now)  # at the same place, where a recorded pass reads them
        else:
            self.there = now


def on_device(statistics: Tensor, device: torch.device) -> Tensor:
    """Return the statistics, as they are now, on the device. Pinned, else the host would wait for the device."""
    if device.type == "cuda":
        statistics = statistics.pin_memory()  # a copy, which the allocator does not reuse before it is transferred
    return statistics.to(device, non_blocking=True)
