"""Several devices learn what one learns; here each is the CPU. That nothing mixes them is in tests/test_device.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from common.rl.networks.model import TorchModel
from common.settings.sections import Algorithm, Optimizer
from learner.parameters.device_trainer import DeviceTrainer
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.replicas import Replicas
from learner.parameters.transport import Transport
from learner.parameters.weights import TargetNetwork, Weights
from tests.common.rl.networks.test_tensor_rollout import of
from tests.helpers.rollouts import BOX, COPIES, PICTURE, STEPS, make
from tests.learner.parameters.test_device_trainer import rollouts

CPU = torch.device("cpu")
SECTIONS = {
    "a3c": Algorithm(max_grad_norm=0.1),
    "a2c": Algorithm(kind="a2c", normalize_advantages=True),
    "vtrace": Algorithm(kind="vtrace", max_grad_norm=0.0),
    "one-step-q": Algorithm(kind="one-step-q"),
    "n-step-q": Algorithm(kind="n-step-q"),
    "one-step-sarsa": Algorithm(kind="one-step-sarsa"),
    "ppo": Algorithm(kind="ppo", epochs=2, minibatches=5, max_grad_norm=0.5),
    "ppo with a limit": Algorithm(kind="ppo", epochs=4, minibatches=2, target_kl=0.3),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As a learner computes; several of torch's wait for each other longer than such small products take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trainer(section: Algorithm, devices: int, observation: Any = BOX, lstm: int = 0) -> DeviceTrainer:
    model, _ = make(observation, algorithm=section.kind, lstm=lstm)
    target = None
    if model.target is not None:
        target = TargetNetwork(model.target.flat.vector, 100, model.frames, 0)
    optimizer = make_optimizer(Optimizer(kind="sgd", learning_rate=0.02, momentum=0.5), model.flat.vector, 0)
    weights = Weights(optimizer, model.extras, target=target)
    replicas = Replicas(model, [CPU] * (devices - 1)) if devices > 1 else None
    return DeviceTrainer(model, weights, section, Transport(CPU), seed=1, replicas=replicas)


def learnt(one: DeviceTrainer, steps: int, observation: Any = BOX, state: int = 0) -> list[dict[str, float]]:
    """The figures of so many steps."""
    figures = []
    for step in range(steps):
        for rollout, weight in zip(rollouts(3, observation, state), (1.0, 0.5, 0.25), strict=True):
            one.add(rollout, weight=weight)
        figures.append(dict(one.step(scale=0.7, frames=60 * (step + 1)).statistics))
    return figures


def assert_alike(ours: DeviceTrainer, theirs: DeviceTrainer, figures: Any, expected: Any) -> None:
    torch.testing.assert_close(ours.model.flat.vector, theirs.model.flat.vector, rtol=1e-4, atol=1e-5)
    assert [one.keys() for one in figures] == [one.keys() for one in expected]
    for one, other in zip(figures, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("name", SECTIONS)
def test_ten_steps_of_two_devices_are_those_of_one(name: str) -> None:
    one, two = trainer(SECTIONS[name], 1), trainer(SECTIONS[name], 2)
    before = one.model.flat.vector.clone()
    assert_alike(two, one, learnt(two, 10), learnt(one, 10))
    assert not torch.equal(one.model.flat.vector, before)


@pytest.mark.parametrize(("observation", "lstm"), [(PICTURE, 0), (BOX, 5), (PICTURE, 5)])
@pytest.mark.parametrize("name", ["a3c", "ppo"])
def test_of_every_kind_of_network(observation: Any, lstm: int, name: str) -> None:
    one, two = (trainer(SECTIONS[name], count, observation, lstm) for count in (1, 2))
    found, expected = (learnt(each, 3, observation, 2 * lstm) for each in (two, one))
    assert_alike(two, one, found, expected)


def test_more_devices_than_steps_of_a_minibatch() -> None:
    section = Algorithm(kind="ppo", epochs=1, minibatches=3 * COPIES * STEPS)  # each of one step
    one, many = trainer(section, 1), trainer(section, 3)
    assert_alike(many, one, learnt(many, 2), learnt(one, 2))


def test_each_has_its_share_and_the_newest_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, float]] = []
    forward = TorchModel.forward

    def noted(model: TorchModel, rollout: Any) -> Any:
        seen.append((rollout.rewards.shape[1], float(model.flat.vector.sum())))
        return forward(model, rollout)

    monkeypatch.setattr(TorchModel, "forward", noted)
    three = trainer(SECTIONS["a3c"], 3)
    learnt(three, 2)
    assert [columns for columns, _ in seen] == [COPIES] * 6
    sums = [total for _, total in seen]
    assert len(set(sums[:3])) == len(set(sums[3:])) == 1
    assert sums[0] != sums[3]


def test_a_rollout_that_is_not_finite_is_found() -> None:
    one, two = trainer(SECTIONS["a3c"], 1), trainer(SECTIONS["a3c"], 2)
    results = []
    for each in (one, two):
        good, bad, last = rollouts(3)
        bad.rewards.fill(np.nan)
        for rollout in (good, bad, last):
            each.add(rollout)
        results.append(each.step(scale=1.0, frames=0))
    assert list(results[0].left_out) == list(results[1].left_out) == [1]
    torch.testing.assert_close(two.model.flat.vector, one.model.flat.vector)


def test_it_is_the_first_model_to_whoever_asks() -> None:
    model, rollout = make(BOX)
    replicas = Replicas(model, [CPU])
    assert (replicas.size, replicas.hash) == (model.size, model.hash)
    assert np.shares_memory(replicas.vector, model.vector)
    assert np.shares_memory(replicas.gradient, model.gradient)
    seen = rollout.observations[0], np.zeros((COPIES, 0), np.float32)
    assert np.array_equal(replicas.step(*seen)[0], model.step(*seen)[0])


def test_where_one_has_too_little_memory_all_take_smaller_parts() -> None:
    model, rollout = make(PICTURE)
    replicas = Replicas(model, [CPU])
    replicas.forward(of(rollout))
    assert replicas.spare_memory() == 0, "a CPU does not run out of it"


def test_all_are_accelerated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        TorchModel, "accelerate", lambda model, probe, *, bfloat16, compiled: asked.append((len(probe), bfloat16))
    )
    model, _ = make(BOX, algorithm="n-step-q")
    Replicas(model, [CPU, CPU]).accelerate(torch.zeros(2, 4), bfloat16=True, compiled=False)
    assert asked == [(2, True)] * 5, "the first, which sees to its target network; two more, and theirs"
