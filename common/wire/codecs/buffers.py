"""The bytes of a message as elements of a tensor, and back, without a copy in between."""

import ctypes

import numpy as np
import torch

from common.wire.frames import Buffer


def nbytes(body: Buffer) -> int:
    """Length of `body` in bytes, for a memoryview of any format."""
    return body.nbytes if isinstance(body, memoryview) else len(body)


def read(body: Buffer, offset: int, dtype: torch.dtype, out: torch.Tensor) -> None:
    """Fills `out` with elements of `dtype` from `body`, starting at byte `offset`, converted to the type of `out`.

    Torch converts halves thirty times as fast as numpy, but warns about read-only memory such as bytes.
    So it gets the bare address, for the duration of the copy.
    Raises ValueError for a body that is too short, or not contiguous.
    """
    source = np.frombuffer(body, np.uint8, out.numel() * dtype.itemsize, offset)
    memory = (ctypes.c_ubyte * source.size).from_address(source.ctypes.data)
    out.copy_(torch.frombuffer(memory, dtype=dtype))


def as_bytes(tensor: torch.Tensor) -> memoryview:
    """The memory of a flat, contiguous CPU tensor; valid until the tensor is written."""
    return tensor.view(torch.uint8).numpy().data
