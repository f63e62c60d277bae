"""Which devices the learner computes on, and whether an error of torch means that a device has failed."""

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

from common.errors import ConfigurationError, UnavailableError

OF_A_DEVICE = ("CUDA error", "CUDA driver error", "CUDNN_STATUS", "cuDNN error", "CUBLAS_STATUS", "NCCL")
"""Parts of torch's error texts about a device; since torch 2.8 most of these errors have a class of their own."""
NVIDIA_DRIVER = Path("/proc/driver/nvidia")


@dataclass(frozen=True)
class Devices:
    every: tuple[torch.device, ...]
    """All devices. The first holds the weights and takes the steps; all compute gradients."""
    trouble: str = ""
    """Why the choice is not the expected one; empty: it is."""

    @property
    def first(self) -> torch.device:
        return self.every[0]

    @property
    def others(self) -> tuple[torch.device, ...]:
        return self.every[1:]

    def __str__(self) -> str:
        return ",".join(str(device) for device in self.every)


def open_devices(name: str) -> Devices:
    """Return the devices that `optimizer.device` names; `auto` is a GPU if there is one that can be used.

    Raises ConfigurationError for a cuda device that this machine does not have or that is named twice, and
    UnavailableError for one that it has but that does not compute.
    """
    present = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return _automatic(present)
    devices = Devices(tuple(torch.device(one) for one in name.split(",")))
    if len(set(devices.every)) < len(devices.every):
        raise ConfigurationError(f'optimizer.device: "{name}" names a device twice')
    for device in devices.every:
        if device.type == "cuda" and (device.index or 0) >= present:
            raise ConfigurationError(
                f'optimizer.device: "{device}" is not there: torch sees {present} cuda devices; use "cpu" or "auto"'
            )
        try:
            _try(device)
        except RuntimeError as error:
            raise UnavailableError(f'optimizer.device: "{device}" cannot be used: {first_line(error)}') from error
    if devices.first.index is not None:
        torch.cuda.set_device(devices.first)  # so that code which names no device takes no memory on another one
    return devices


def _automatic(present: int) -> Devices:
    if present:
        cuda = torch.device("cuda")
        try:
            _try(cuda)
        except RuntimeError as error:
            return _instead(f"the GPU cannot be used: {first_line(error)}")
        return Devices((cuda,))
    if NVIDIA_DRIVER.exists() and os.environ.get("CUDA_VISIBLE_DEVICES") != "":  # which hides all GPUs on purpose
        return _instead("an NVIDIA driver is here, but torch sees no GPU: see `a3cd doctor`")
    return Devices((torch.device("cpu"),))


def _instead(why: str) -> Devices:
    return Devices((torch.device("cpu"),), f'optimizer.device = "auto": the learner computes on the CPU, {why}')


def _try(device: torch.device) -> None:
    """Raise RuntimeError if the device does not compute: an old driver, exclusive use by others, unknown to torch."""
    if device.type == "cuda":
        weight = torch.ones(2, 2, device=device, requires_grad=True)
        with warnings.catch_warnings():
            # Torch says once that the thread of the backward pass had no context yet, and goes on.
            warnings.filterwarnings("ignore", "Attempting to run cuBLAS")
            torch.autograd.backward((weight @ weight).sum())
        torch.cuda.synchronize(device)


def failure(error: Exception) -> str:
    """Return what happened to a device if `error` says that one has failed; otherwise an empty text."""
    kinds = (torch.cuda.OutOfMemoryError, getattr(torch, "AcceleratorError", torch.cuda.OutOfMemoryError))
    if isinstance(error, kinds) or (isinstance(error, RuntimeError) and any(one in str(error) for one in OF_A_DEVICE)):
        return first_line(error)
    return ""


def first_line(error: Exception) -> str:
    """Return the first line of an error's text: in torch's errors, advice to programmers follows."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
