"""Copies between the host and a device, on a CPU; and on a device whose copies come late, as those of a GPU do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from common.wire.codecs.floats import Fp16Codec
from learner.parameters.transport import CudaTransport, Transport, halved, transport

CPU = torch.device("cpu")
ARRAYS: list[Any] = [
    np.arange(5, dtype=np.float32).reshape(5, 1),
    np.array([[True, False], [False, True], [True, True]]),
    np.arange(7, dtype=np.uint8),
    np.arange(6, dtype=np.int64).reshape(2, 3)[:, ::2],
    np.zeros((0, 4), np.float32),
]


class Late(Transport):
    """Copies happen when somebody waits for them, in the order in which they were begun; nothing else waits."""

    def __init__(self) -> None:
        super().__init__(CPU)
        self.queue: list[Callable[[], object]] = []

    def run(self) -> None:
        while self.queue:
            self.queue.pop(0)()

    def _up(self, memory: Tensor) -> Tensor:
        there = torch.full_like(memory, 255)
        self.queue.append(lambda: there.copy_(memory))
        return there

    def _down(self, tensor: Tensor, memory: Tensor) -> Callable[[], None]:
        self.queue.append(lambda: memory.copy_(tensor))
        return self.run


def assert_there(tensors: list[Tensor]) -> None:
    for tensor, array in zip(tensors, ARRAYS, strict=True):
        assert tuple(tensor.shape) == array.shape
        assert tensor.numpy().dtype == array.dtype
        assert (tensor.numpy() == array).all()


def test_arrays_of_all_types_go_up_together() -> None:
    assert_there(Transport(CPU).up(ARRAYS))


def test_what_was_given_may_be_written_while_the_copies_are_under_way() -> None:
    late = Late()
    given = [array.copy() for array in ARRAYS]
    first = late.up(given)
    for array in given:
        array.fill(0)
    second = late.up(given)
    late.run()
    assert_there(first)
    assert not any(tensor.any() for tensor in second)


def test_what_comes_down_is_waited_for_and_has_memory_of_its_own() -> None:
    late = Late()
    given = torch.arange(6.0).view(2, 3)
    first, second = late.begin_down(given), late.begin_down(given + 1)
    assert len(late.queue) == 2
    assert second().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert (first().tolist(), first().dtype) == ([[0, 1, 2], [3, 4, 5]], np.float32)
    given.zero_()
    assert first().any()
    assert late.down(torch.ones((), dtype=torch.bool)).tolist() is True


def test_on_a_cpu_nothing_is_beside_anything() -> None:
    here = transport(CPU)
    assert type(here) is Transport
    with here.acting():
        over = here.mark()
    here.join()
    here.follow()
    assert over()


def test_halves_are_rounded_as_the_codec_rounds_them() -> None:
    values = np.concatenate(
        [np.random.default_rng(0).normal(size=1000) * 10.0 ** np.linspace(-9, 8, 1000), [1e30, -1e30]]
    )
    vector = values.astype(np.float32)
    vector = vector[np.isfinite(vector)]
    codec = Fp16Codec(vector.size)
    assert halved(torch.from_numpy(vector)).numpy().tobytes() == bytes(codec.encode(vector))


class Streams:
    """Of torch.cuda, on a machine without: notes who waits for whom."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.current = "training"
        self._names = iter(("copies", "acting"))
        monkeypatch.setattr(torch.cuda, "Stream", lambda *_, **__: self.stream(next(self._names)))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: self.stream(self.current))
        monkeypatch.setattr(torch.cuda, "stream", self.within)
        monkeypatch.setattr(torch.cuda, "Event", self.event)
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: self.note(f"kept for {stream.name}"))
        monkeypatch.setattr(CudaTransport, "_memory", Transport._memory)  # a CPU alone pins nothing

    def note(self, what: str) -> None:
        self.log.append(what)

    def stream(self, name: str) -> Any:
        wait = lambda other: self.note(f"{name} waits for {other.name}")  # noqa: E731
        return SimpleNamespace(name=name, wait_stream=wait)

    def event(self) -> Any:
        return SimpleNamespace(
            record=lambda stream: self.note(f"event on {stream.name}"),
            synchronize=lambda: self.note("the host waits"),
            query=lambda: True,
        )

    @contextmanager
    def within(self, stream: Any) -> Iterator[None]:
        before, self.current = self.current, stream.name
        yield
        self.current = before

    def taken(self) -> list[str]:
        log, self.log = self.log, []
        return log


def test_on_a_gpu_streams_wait_for_each_other_and_the_host_for_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(monkeypatch)
    gpu = CudaTransport(CPU)
    assert_there(gpu.up(ARRAYS))
    assert streams.taken() == ["training waits for copies", "kept for training"]
    with gpu.acting():
        assert_there(gpu.up(ARRAYS))
        fetched = gpu.begin_down(torch.ones(3))
    assert streams.taken() == ["acting waits for copies", "kept for acting", "event on acting"]
    assert fetched().tolist() == [1, 1, 1]
    assert streams.taken() == ["the host waits"]
    gpu.follow()
    gpu.join()
    assert gpu.mark()()
    assert streams.taken() == ["acting waits for training", "training waits for acting", "event on training"]
    gpu.down(torch.ones(3))
    assert streams.taken() == ["event on training", "the host waits"]


def test_what_goes_up_never_waits_behind_a_batch_that_is_being_learnt_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures are asked for when it has begun: on the stream of copies, acting would wait for it."""
    streams = Streams(monkeypatch)
    gpu = CudaTransport(CPU)
    gpu.begin_down(torch.ones(3))
    with gpu.acting():
        gpu.up(ARRAYS)
    assert not [line for line in streams.taken() if line.startswith("copies waits")]


def test_a_gpu_s_transport_is_chosen_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Streams(monkeypatch)
    assert isinstance(transport(torch.device("cuda:0")), CudaTransport)
