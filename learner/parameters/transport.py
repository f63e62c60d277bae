"""Transport between the host and the learner's device: copies run beside the device's computations, and do not wait.

A copy that a GPU makes while the host goes on needs pinned memory, which must not be written again before the copy is
over. Here each copy has pinned memory of its own, which torch's allocator reuses only once the copies from and to it
are over: nothing is overwritten, and nothing waits for that. `Transport` is for a CPU: the same calls, copied at once.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.host.process import available_bytes

ALIGNMENT = 64
"""Alignment of each array in bytes: a multiple of the size of every element type."""
Wait = Callable[[], None]


class Transport:
    """Copies to and from the host's own memory. A device overrides the methods that begin with _."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.is_host = device.type == "cpu"
        """Whether the device's memory is the host's own."""

    def free_bytes(self) -> int:
        """Return the bytes of memory that are still free, on the host or on the device, where there are fewer."""
        return available_bytes()

    def up(self, arrays: Sequence[NDArray[Any]]) -> list[Tensor]:
        """Return the arrays as tensors on the device, copied in one go; the arrays may be changed right afterwards.

        The current stream waits for the copy, the host does not.
        """
        starts, total = [], 0
        for array in arrays:
            starts.append(total)
            total += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        memory, view = self._memory(total)
        for start, array in zip(starts, arrays, strict=True):
            view[start : start + array.nbytes].view(array.dtype).reshape(array.shape)[...] = array
        there = self._up(memory)
        return [
            there[start : start + array.nbytes].view(_torch_type(array)).view(array.shape)
            for start, array in zip(starts, arrays, strict=True)
        ]

    def begin_down(self, tensor: Tensor) -> Callable[[], NDArray[Any]]:
        """Begin to fetch a tensor that the current stream computes; the returned function waits and gives the array."""
        tensor = tensor.detach().contiguous()
        memory, view = self._memory(tensor.numel() * tensor.element_size())
        wait = self._down(tensor, memory.view(tensor.dtype).view(tensor.shape))

        def fetched() -> NDArray[Any]:
            wait()
            array: NDArray[Any] = view.view(_numpy_type(tensor)).reshape(tuple(tensor.shape))
            return array

        return fetched

    def down(self, tensor: Tensor) -> NDArray[Any]:
        """Return the tensor as an array in memory of its own; waits for the current stream's work so far."""
        return self.begin_down(tensor)()

    def acting(self) -> AbstractContextManager[Any]:
        """Return a context in which computations need not wait for training."""
        return nullcontext()

    def join(self) -> None:
        """Make what follows on the current stream wait for all computations so far within `acting`."""

    def follow(self) -> None:
        """Make what follows within `acting` wait for all computations so far on the current stream."""

    def mark(self) -> Callable[[], bool]:
        """Return a function that tells whether the current stream's work so far is over."""
        return lambda: True

    def _memory(self, size: int) -> tuple[Tensor, NDArray[np.uint8]]:
        """Return memory of the host, uint8 (size,), as a tensor and as an array."""
        memory = torch.empty(size, dtype=torch.uint8)
        return memory, memory.numpy()

    def _up(self, memory: Tensor) -> Tensor:
        return memory

    def _down(self, tensor: Tensor, memory: Tensor) -> Wait:
        memory.copy_(tensor)
        return lambda: None


class CudaTransport(Transport):
    """Uses pinned memory, a stream for copies to the device, and one for acting.

    A stream does one thing after the other. So copies to the host go on the stream that computes the tensor, and the
    stream of copies to the device waits for no other: behind a batch that is being trained on, the observations to act
    on would have to wait.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        cuda: Any = torch.cuda  # its streams have no types
        self._event = cuda.Event
        self._copies = cuda.Stream(device)
        self._acting = cuda.Stream(device, priority=-1)

    def free_bytes(self) -> int:
        free, _ = torch.cuda.mem_get_info(self.device)
        return min(int(free), super().free_bytes())

    def acting(self) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = torch.cuda.stream(self._acting)
        return stream

    def join(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self._acting)

    def follow(self) -> None:
        self._acting.wait_stream(torch.cuda.current_stream(self.device))

    def mark(self) -> Callable[[], bool]:
        event = self._event()
        event.record(torch.cuda.current_stream(self.device))
        return lambda: bool(event.query())

    def _memory(self, size: int) -> tuple[Tensor, NDArray[np.uint8]]:
        memory = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        return memory, memory.numpy()

    def _up(self, memory: Tensor) -> Tensor:
        current = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self._copies):
            there = memory.to(self.device, non_blocking=True)
        current.wait_stream(self._copies)
        there.record_stream(current)
        return there

    def _down(self, tensor: Tensor, memory: Tensor) -> Wait:
        memory.copy_(tensor, non_blocking=True)
        event = self._event()
        event.record(torch.cuda.current_stream(self.device))
        wait: Wait = event.synchronize
        return wait


def transport(device: torch.device) -> Transport:
    return CudaTransport(device) if device.type == "cuda" else Transport(device)


def halved(vector: Tensor) -> Tensor:
    """Return a copy in half precision, as `Fp16Codec` rounds it: finite values beyond its range become its largest."""
    largest = torch.finfo(torch.float16).max
    return vector.clamp(-largest, largest).half()


def _torch_type(array: NDArray[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, array.dtype)).dtype


def _numpy_type(tensor: Tensor) -> np.dtype[Any]:
    return torch.empty(0, dtype=tensor.dtype).numpy().dtype
