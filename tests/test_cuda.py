"""A learner on a real GPU: where there is one, copies come whole, and it learns what a learner on the CPU learns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.gpu import TOLERANCE, equal
from learner.parameters.gradient_graphs import SEEN, GradientGraphs, recorder
from learner.parameters.transport import CudaTransport, transport
from tests.helpers.rollouts import BOX, PICTURE
from tests.learner.parameters.test_device_trainer import SECTIONS, assert_alike, assert_close, both, rollouts, trainers
from tests.learner.parameters.test_gradient_graphs import learnt, trainer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ROUNDS, NUMBERS = 200, 100_000
CUDA = torch.device("cuda")


@pytest.fixture(autouse=True)
def full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a learner."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def busy(square: torch.Tensor) -> torch.Tensor:
    """Keeps the current stream at work for a while."""
    for _ in range(5):
        square = (square @ square).clamp(-1, 1)
    return square


def test_copies_come_whole_beside_computations_that_take_longer() -> None:
    """Pinned memory that torch gave away again too early would hold a later round's numbers."""
    gpu = transport(CUDA)
    assert isinstance(gpu, CudaTransport)
    square = torch.randn(2048, 2048, device=CUDA)
    fetched = []
    for number in range(ROUNDS):
        array = np.full(NUMBERS, number, np.float32)
        (there,) = gpu.up([array])
        array.fill(np.nan)
        square = busy(square)
        fetched.append(gpu.begin_down(there + 1))
        with gpu.acting():
            (seen,) = gpu.up([np.full(NUMBERS, -number, np.float32)])
            fetched.append(gpu.begin_down(seen - 1))
    for number in range(ROUNDS):
        assert (fetched[2 * number]() == number + 1).all()
        assert (fetched[2 * number + 1]() == -number - 1).all()


def test_what_is_learnt_is_not_waited_for_by_what_acts() -> None:
    gpu = transport(CUDA)
    square = busy(torch.randn(4096, 4096, device=CUDA))
    with gpu.acting():
        gpu.down(torch.ones(10, device=CUDA))  # what is got or loaded for the first time waits for all streams
    gpu.down(square[:1])
    for _ in range(20):
        square = busy(square)
    over = gpu.mark()
    with gpu.acting():
        gpu.down(torch.ones(10, device=CUDA))
    assert not over()
    gpu.join()
    gpu.down(square[:1])
    assert over()


@pytest.mark.parametrize("kind", ["gradients", "trajectories", "actions"])
@pytest.mark.parametrize("network", ["dense", "conv-a3c", "conv-impala"])
def test_it_learns_what_a_learner_on_the_cpu_learns(kind: str, network: str) -> None:
    if (network, kind) == ("dense", "actions"):
        pytest.skip("the made messages of this exchange are pictures")
    assert equal("cuda", kind, network) < TOLERANCE


@pytest.mark.parametrize(
    ("name", "observation", "lstm", "normalize"),
    [
        *((name, BOX, 0, False) for name in SECTIONS),
        ("ppo", BOX, 5, True),
        ("a3c", PICTURE, 0, True),
        ("ppo", PICTURE, 5, False),
    ],
)
def test_a_graph_computes_what_single_kernels_do(name: str, observation: Any, lstm: int, normalize: bool) -> None:
    network = {"observation": observation, "lstm": lstm, "normalize": normalize}
    plain, graphed = (
        trainer(SECTIONS[name], record, optimizer="sgd", device=CUDA, **network) for record in (None, recorder(CUDA))
    )
    counts = [2, 1] * (SEEN + 1 if name != "ppo" else 1)  # few of ppo's many steps: rounding grows from step to step
    expected, found = (learnt(one, counts, observation, 2 * lstm) for one in (plain, graphed))
    assert graphed.troubles == []
    assert sum(shape.graph is not None for shape in graphed._graphs._shapes.values()) >= 2
    assert_close(graphed.model.flat.vector, plain.model.flat.vector.cpu(), rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.statistics == pytest.approx(theirs.statistics, rel=1e-2, abs=1e-3)


def test_after_a_failed_recording_it_learns_without() -> None:
    plain, graphed = (trainer(SECTIONS["ppo"], None, optimizer="sgd", device=CUDA) for _ in range(2))
    alone = graphed._row

    def waiting(*given: Any) -> torch.Tensor:
        """Reads a value, which cannot be recorded."""
        return alone(*given) * float(torch.ones(1, device=CUDA))

    graphed._graphs = GradientGraphs(waiting, recorder(CUDA))
    before = torch.cuda.current_stream()
    for one in (plain, graphed):
        learnt(one, [2])
    assert torch.cuda.current_stream() == before, "torch leaves another behind"
    assert graphed.troubles[0].startswith("CUDA graphs are not used any more")
    assert_close(graphed.model.flat.vector, plain.model.flat.vector.cpu(), rtol=1e-3, atol=1e-4)


@contextmanager
def little_memory(more: int) -> Iterator[None]:
    """Lets this process have no more memory of the GPU than what is in use and `more` bytes."""
    torch.cuda.empty_cache()
    whole = torch.cuda.get_device_properties(CUDA).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + more) / whole)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.parametrize("graphs", [False, True])
def test_a_batch_beyond_the_memory_is_learnt_from_in_parts(graphs: bool) -> None:
    here, there = trainers(SECTIONS["a3c"], "sgd", device=CUDA, observation=PICTURE)
    if graphs:
        there._graphs = GradientGraphs(there._row, recorder(CUDA))
        for _ in range(SEEN + 1):
            assert_alike(here, there, both(here, there, rollouts(2, PICTURE), 0))
    assert_alike(here, there, both(here, there, rollouts(1, PICTURE), 0))  # libraries have their workspaces now
    many = rollouts(200, PICTURE)
    with little_memory(128 * 2**20):
        for trainer in (here, there):
            for rollout in many:
                trainer.add(rollout)
        results = here.step(scale=0.01, frames=0), there.step(scale=0.01, frames=0)
    assert "too little memory for a batch" in " ".join(there.troubles)
    assert_alike(here, there, results)
