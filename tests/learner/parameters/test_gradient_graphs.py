"""Gradients by graphs are those without: here with a CPU that computes again what would have been recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from common.settings.sections import Algorithm
from learner.parameters.device_trainer import DeviceTrainer, trainer_of
from learner.parameters.gradient_graphs import MOST, SEEN, GradientGraphs, Record, Start, recorder
from learner.parameters.replicas import Replicas
from learner.parameters.step_result import StepResult
from tests.helpers.fake_device import NotHost
from tests.helpers.rollouts import BOX, PICTURE
from tests.learner.parameters.test_device_trainer import SECTIONS, Memory, rollouts, trainers

ROUNDS = SEEN + 3


class Recorder:
    """Records as a GPU does: a start computes from what is at the places that were read, and writes to one place."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.recorded = 0

    def __call__(self, compute: Callable[[], Tensor]) -> tuple[Start, Tensor]:
        if self.error:
            raise RuntimeError(self.error)
        self.recorded += 1
        result = torch.full_like(compute(), torch.nan)
        return lambda: result.copy_(compute()), result


def trainer(section: Algorithm, record: Record | None, **options: Any) -> DeviceTrainer:
    made = trainers(section, **options)[1]
    made._graphs = GradientGraphs(made._row, record)
    return made


def learnt(one: DeviceTrainer, counts: Iterable[int], observation: Any = BOX, state: int = 0) -> list[StepResult]:
    """Takes one step for each of `counts`, on so many rollouts; these and the running statistics change every time."""
    results, parts = [], rollouts(5, observation, state)
    for step, count in enumerate(counts):
        for number in range(count):
            one.add(parts[(step + number) % len(parts)], weight=1.0 / (1 + number), count=2)
        one.model.extras[...] = 1 + 0.1 * step
        results.append(one.step(scale=0.7, frames=10 * step))
    return results


@pytest.mark.parametrize("name", SECTIONS)
def test_it_learns_the_same_to_the_last_bit(name: str) -> None:
    recorder = Recorder()
    plain, graphed = trainer(SECTIONS[name], None), trainer(SECTIONS[name], recorder)
    counts = [2, 1] * ROUNDS
    assert learnt(graphed, counts) == learnt(plain, counts)
    assert torch.equal(graphed.model.flat.vector, plain.model.flat.vector)
    assert recorder.recorded >= 2, "one for each number of rollouts"
    assert graphed.troubles == []


@pytest.mark.parametrize(("observation", "lstm"), [(PICTURE, 0), (BOX, 5), (PICTURE, 5)])
def test_with_every_kind_of_network(observation: Any, lstm: int) -> None:
    options: Any = {"observation": observation, "lstm": lstm, "normalize": True}
    for name in ("a3c", "ppo"):
        pair = [trainer(SECTIONS[name], one, **options) for one in (None, Recorder())]
        expected, found = (learnt(one, [2] * ROUNDS, observation, 2 * lstm) for one in pair)
        assert found == expected
        assert torch.equal(pair[0].model.flat.vector, pair[1].model.flat.vector)


def test_a_shape_is_recorded_once_and_only_if_it_comes_again() -> None:
    recorder = Recorder()
    one = trainer(SECTIONS["a3c"], recorder)
    learnt(one, range(1, 5))
    assert recorder.recorded == 0, "each shape came once"
    learnt(one, [2] * SEEN)
    assert recorder.recorded == 1
    learnt(one, [2] * 5)
    assert recorder.recorded == 1


def test_of_many_shapes_the_one_that_has_not_come_for_longest_is_forgotten() -> None:
    recorder = Recorder()
    one = trainer(SECTIONS["a3c"], recorder)
    learnt(one, [1] * (SEEN + 1))
    learnt(one, range(1, MOST + 1))
    assert len(one._graphs._shapes) == MOST
    learnt(one, [1])
    assert recorder.recorded == 1, "remembered: it came as long ago as the others"
    learnt(one, range(2, MOST + 2))
    learnt(one, [1] * (SEEN + 1))
    assert recorder.recorded == 2


def test_what_cannot_be_recorded_is_computed_and_that_is_said() -> None:
    plain, graphed = trainer(SECTIONS["ppo"], None), trainer(SECTIONS["ppo"], Recorder("CUDA error: no\nand advice"))
    counts = [2] * ROUNDS
    assert learnt(graphed, counts) == learnt(plain, counts)
    assert torch.equal(graphed.model.flat.vector, plain.model.flat.vector)
    assert graphed.troubles == ["CUDA graphs are not used any more, which makes steps slower: CUDA error: no"]


def test_where_memory_is_short_graphs_are_given_up_before_passes_get_smaller() -> None:
    one = trainer(SECTIONS["a3c"], Recorder())
    learnt(one, [1] * ROUNDS)
    assert one._graphs._shapes
    memory = Memory(one, holds=20)
    learnt(one, [2])
    assert not one._graphs._shapes
    assert [size > 20 for size in memory.passes].count(True) == 4, "84, and again without graphs; 42 and 21"
    graphs, smaller = sorted(one.troubles)
    assert graphs.startswith("CUDA graphs are not used any more")
    assert "passes through the network are smaller" in smaller


def test_several_devices_record_nothing_nor_does_one_that_must_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("learner.parameters.device_trainer.recorder", lambda device: Recorder())

    def records(*, replicas: bool = False, graphs: bool = True) -> bool:
        made = trainers(SECTIONS["a3c"])[1]
        made.weights.transport = NotHost()
        several = Replicas(made.model, [torch.device("cpu")]) if replicas else None
        found = trainer_of(made.model, made.weights, SECTIONS["a3c"], replicas=several, graphs=graphs)
        assert isinstance(found, DeviceTrainer)
        return found._graphs._record is not None

    assert records()
    assert not records(graphs=False)
    assert not records(replicas=True)


def test_a_cpu_has_no_graphs() -> None:
    assert recorder(torch.device("cpu")) is None
