"""The trainer of a GPU, on a CPU and on a GPU if there is one: it learns what a CPU's does, and says the same of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from common.rl.frame_stack import FrameStack
from common.rl.networks.acceleration import Features
from common.rl.networks.chunks import Chunks
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm, Optimizer
from learner.parameters.batch_trainer import NOT_FINITE, BatchTrainer
from learner.parameters.device_trainer import DeviceTrainer, trainer_of
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.step_result import StepResult
from learner.parameters.weights import TargetNetwork, Weights
from tests.helpers.fake_device import statistics_apart
from tests.helpers.rollouts import BOX, COPIES, PICTURE, STEPS, make

DEVICES = [torch.device(name) for name in ("cpu", "cuda") if name == "cpu" or torch.cuda.is_available()]
SECTIONS = {
    "a3c": Algorithm(max_grad_norm=0.1),
    "unclipped": Algorithm(max_grad_norm=0.0, normalize_advantages=True),
    "n-step-q": Algorithm(kind="n-step-q"),
    "ppo": Algorithm(kind="ppo", epochs=3, minibatches=4, max_grad_norm=0.5),
    "ppo with a limit": Algorithm(kind="ppo", epochs=8, minibatches=2, target_kl=0.3),
}


def trainers(
    section: Algorithm, optimizer: str = "adam", *, device: torch.device = DEVICES[0], **options: Any
) -> tuple[BatchTrainer, DeviceTrainer]:
    """Of equal models: a CPU's, and a device's. `options` are those of `make`."""
    made: list[Any] = []
    for there in (False, True):
        model, _ = make(**({"observation": BOX, "algorithm": section.kind} | options))
        model = model.to(device) if there else model
        settings = Optimizer(kind=optimizer, learning_rate=0.01, momentum=0.9, anneal="linear")  # type: ignore[arg-type]
        target = None
        if model.target is not None:
            target = TargetNetwork(model.target.flat.vector, 100, model.frames, 0)
        weights = Weights(make_optimizer(settings, model.flat.vector, 300), model.extras, target=target)
        given: Any = (model, weights, section)
        made.append(DeviceTrainer(*given, weights.transport) if there else BatchTrainer(*given))
    return made[0], made[1]


def rollouts(count: int, observation: Any = BOX, state: int = 0) -> list[Rollout]:
    parts = [make(observation, seed)[1] for seed in range(count)]
    states = np.random.default_rng(0).normal(size=(count, COPIES, state)).astype(np.float32)
    given = zip(parts, states, strict=True)
    return [dataclasses.replace(part, state=one if state else None) for part, one in given]


def both(here: BatchTrainer, there: DeviceTrainer, parts: list[Rollout], frames: int) -> tuple[StepResult, StepResult]:
    for trainer in (here, there):
        for rollout, weight in zip(parts, (1.0, 0.5, 0.25, 1.0), strict=False):
            trainer.add(rollout, weight=weight, count=2)
    return here.step(scale=0.7, frames=frames), there.step(scale=0.7, frames=frames)


def assert_alike(here: BatchTrainer, there: DeviceTrainer, results: tuple[StepResult, StepResult]) -> None:
    ours, theirs = results
    assert_close(there.model.flat.vector, here.model.flat.vector, rtol=1e-3, atol=1e-4)
    for name, tensor in here.weights.optimizer.state().items():
        assert_close(there.weights.optimizer.state()[name], tensor, rtol=1e-2, atol=1e-5)
    assert (theirs.left_out, theirs.to_blame) == (ours.left_out, ours.to_blame)
    assert theirs.statistics == pytest.approx(ours.statistics, rel=1e-2, abs=1e-4)


def assert_close(there: torch.Tensor, here: torch.Tensor, **tolerances: float) -> None:
    torch.testing.assert_close(there.cpu(), here, **tolerances)


@pytest.fixture(params=DEVICES, ids=str)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # as in a learner
    found: torch.device = request.param
    return found


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "sgd"])
def test_it_learns_what_a_cpu_learns(name: str, optimizer: str, device: torch.device) -> None:
    here, there = trainers(SECTIONS[name], optimizer, device=device)
    before = here.model.flat.vector.clone()
    for step in range(3):
        assert_alike(here, there, both(here, there, rollouts(3), 60 * (step + 1)))
    assert not torch.equal(here.model.flat.vector, before)
    if here.weights.target is not None and there.weights.target is not None:
        assert_close(there.weights.target.vector, here.weights.target.vector, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("observation", "kind", "lstm"),
    [(PICTURE, "auto", 0), (BOX, "auto", 5), (PICTURE, "auto", 5), (PICTURE, "conv-nature", 5)],
)
def test_with_every_kind_of_network(observation: Any, kind: str, lstm: int, device: torch.device) -> None:
    for section in (SECTIONS["a3c"], SECTIONS["ppo"]):
        here, there = trainers(section, observation=observation, kind=kind, lstm=lstm, device=device)
        results = both(here, there, rollouts(2, observation, 2 * lstm), 0)
        assert_alike(here, there, results)


def test_running_statistics_are_those_of_the_moment(device: torch.device) -> None:
    here, there = trainers(SECTIONS["ppo"], "sgd", normalize=True, device=device)
    statistics_apart(there.model)
    for step in range(3):
        for trainer in (here, there):
            trainer.model.extras[...] = 1 + 0.1 * step
        assert_alike(here, there, both(here, there, rollouts(2), 0))


@pytest.mark.parametrize("kind", ["a3c", "ppo"])
@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "sgd"])
def test_a_rollout_without_a_finite_gradient_is_left_out_and_the_others_are_learnt_from(
    kind: str, optimizer: str, device: torch.device
) -> None:
    section = Algorithm(kind=kind, max_grad_norm=0.0)  # type: ignore[arg-type]
    here, there = trainers(section, optimizer, device=device)
    first, bad, last = rollouts(3)
    bad = dataclasses.replace(bad, rewards=bad.rewards * np.float32(np.nan))
    results = both(here, there, [first, bad, last], 0)
    assert results[0].left_out == {1: NOT_FINITE}
    assert_alike(here, there, results)
    assert there.weights.finite


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "sgd"])
def test_where_nothing_is_finite_nothing_changes(optimizer: str, device: torch.device) -> None:
    _, there = trainers(Algorithm(kind="ppo", epochs=2), optimizer, device=device)
    before = [there.model.flat.vector.clone(), *(one.clone() for one in there.weights.optimizer.state().values())]
    for rollout in rollouts(2):
        there.add(dataclasses.replace(rollout, rewards=rollout.rewards * np.float32(np.nan)))
    assert there.step(scale=1.0, frames=0) == StepResult({}, {0: NOT_FINITE, 1: NOT_FINITE}, to_blame=False)
    after = [there.model.flat.vector, *there.weights.optimizer.state().values()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_rollout_may_be_written_again_once_it_is_added(device: torch.device) -> None:
    here, there = trainers(SECTIONS["a3c"], device=device)
    (rollout,) = rollouts(1)
    mine = rollout.copy()
    there.add(mine)
    mine.rewards.fill(np.nan)
    mine.observations.fill(0)
    here.add(rollout)
    results = here.step(scale=1.0, frames=0), there.step(scale=1.0, frames=0)
    assert_alike(here, there, results)


def test_frames_that_come_once_are_stacked_on_the_device(device: torch.device) -> None:
    here, there = trainers(SECTIONS["a3c"], observation=PICTURE, device=device)
    (rollout,) = rollouts(1, PICTURE)
    frames: Any = FrameStack(2).unstacked(
        rollout.observations[0],
        rollout.observations[1:, :, 1:],
        np.ones((STEPS, COPIES), np.bool_),
        rollout.observations[1:, :, :1].reshape(-1, 1, *PICTURE.shape[1:]),
    )
    assert_alike(here, there, (learnt(here, rollout), learnt(there, dataclasses.replace(rollout, observations=frames))))


def learnt(trainer: BatchTrainer, rollout: Rollout) -> StepResult:
    trainer.add(rollout)
    return trainer.step(scale=1.0, frames=0)


def test_a_step_may_be_begun_and_finished_later(device: torch.device) -> None:
    here, there = trainers(SECTIONS["a3c"], device=device)
    for trainer in (here, there):
        assert trainer.finish() == StepResult(), "nothing was begun"
        trainer.begin(scale=1.0, frames=0)
        assert (trainer.is_over, trainer.finish()) == (True, StepResult()), "nothing to learn from"
        trainer.add(rollouts(1)[0])
        trainer.begin(scale=1.0, frames=0)
        trainer.add(rollouts(2)[1])
    assert_alike(here, there, (here.finish(), there.finish()))
    assert_alike(here, there, (here.step(scale=1.0, frames=0), there.step(scale=1.0, frames=0)))


class Memory:
    """Of a trainer's device, in observations: a pass over more of them fails as it does by torch's allocator."""

    def __init__(self, trainer: DeviceTrainer, holds: int) -> None:
        self.passes: list[int] = []
        for model in (trainer.model, trainer.model.target):
            if model is not None:
                model._chunks = Chunks(model.network, torch.device("meta"))  # it believes that there is a GiB
                model._features = self._limited(model.network.features, holds)

    def _limited(self, features: Features, holds: int) -> Features:
        def limited(observations: torch.Tensor) -> torch.Tensor:
            self.passes.append(len(observations))
            if len(observations) > holds:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
            return features(observations)

        return limited


@pytest.mark.parametrize("name", ["a3c", "n-step-q", "ppo"])
def test_a_batch_that_the_memory_does_not_hold_is_learnt_from_in_smaller_parts(name: str) -> None:
    here, there = trainers(SECTIONS[name])
    memory, expected = Memory(there, holds=20), learnt_twice(here)
    assert there.troubles == []
    assert_alike(here, there, (expected, learnt_twice(there)))
    (told,) = there.troubles
    assert told.startswith("cpu had too little memory for a batch")
    failed = [size for size in memory.passes if size > 20]
    assert 0 < len(failed) <= 6, "each size once, and never again"


def learnt_twice(trainer: BatchTrainer) -> StepResult:
    for _ in range(2):
        for rollout in rollouts(2):
            trainer.add(rollout)
        result = trainer.step(scale=1.0, frames=100)
    return result


def test_where_not_even_one_observation_fits_the_step_fails() -> None:
    _, there = trainers(SECTIONS["a3c"])
    Memory(there, holds=0)
    before = there.model.flat.vector.clone()
    there.add(rollouts(1)[0])
    with pytest.raises(torch.cuda.OutOfMemoryError):
        there.step(scale=1.0, frames=0)
    assert torch.equal(there.model.flat.vector, before)


def test_the_device_of_the_weights_decides() -> None:
    here, _ = trainers(SECTIONS["a3c"])
    found = trainer_of(here.model, here.weights, SECTIONS["a3c"], average=True, seed=3)
    assert type(found) is BatchTrainer, "that of other devices is in tests/test_device.py"
