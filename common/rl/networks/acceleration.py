"""Other ways to compute a network's layers for gradients: in bfloat16, and compiled; both are off by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from common.errors import ConfigurationError
from common.host.modules import error_text
from common.rl.networks.heads import PolicyValue

BACKEND = "inductor"
"""Backend of torch.compile: it generates Triton on a GPU, C++ on a CPU."""
Features = Callable[[Tensor], Tensor]


def features(network: PolicyValue, probe: Tensor, *, bfloat16: bool, compiled: bool) -> Features:
    """Return `network.features`, accelerated; its result stays float32, as do the parameters and their gradient.

    probe: some observations (N, *shape) on the network's device, for a trial. Raises ConfigurationError if the device
    has no bfloat16, or torch cannot compile.
    """
    device = probe.device
    found: Features = network.features
    if bfloat16:
        if device.type == "cuda" and not torch.cuda.is_bf16_supported():
            name = torch.cuda.get_device_name(device)
            raise ConfigurationError(f'optimizer.precision = "bfloat16": {name} has none; use "float32"')
        found = _in_bfloat16(found, device)
    if compiled:
        found = _compiled(found)
        try:
            torch.autograd.backward(found(probe).sum())
        except Exception as error:
            why = error_text(error).splitlines()[0]
            raise ConfigurationError(f"optimizer.compile = true: torch.compile raised {why}; use false") from error
    return found


def bfloat16_trouble(device: torch.device) -> str:
    """Return why bfloat16 is slower than float32 on this device, as far as torch can say; empty if it is not.

    PPO on pictures played a quarter of the frames on an x86 processor without such instructions.
    """
    # Versions of torch before this function say nothing.
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    if device.type != "cpu" or capabilities.get("architecture") != "x86_64":
        return ""
    if capabilities["avx512_bf16"] or capabilities["amx_bf16"]:
        return ""
    return (
        'optimizer.precision = "bfloat16" is slow here: the processor has no instructions for it; "float32" is faster '
        "(set it with --resume, too)"
    )


def _in_bfloat16(plain: Features, device: torch.device) -> Features:
    def computed(observations: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return plain(observations).float()

    return computed


def _compiled(plain: Features) -> Features:
    """Compile for any number of observations of one shape: with all lengths unknown, inductor cannot do conv-impala."""
    backend: Any = BACKEND
    generated: Features = torch.compile(plain, backend=backend)

    def computed(observations: Tensor) -> Tensor:
        torch._dynamo.maybe_mark_dynamic(observations, 0)
        return generated(observations)

    return computed
