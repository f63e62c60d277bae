"""Until it changes over it is the store of gradients to the bit, and from then on the trainer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from common.rl.environments.make import make as make_environments
from common.rl.environments.spaces import describe
from common.rl.model import Model, build
from common.wire.bodies.trajectory import trajectory_format
from common.wire.codecs.registry import make as make_codec
from learner.parameters.batch_trainer import Trainer
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.weights import ParameterStore
from learner.undecided import UndecidedStore, blank
from tests.helpers.run import settings_of

SETTINGS = settings_of("network.hidden=[8]", "environment.num_envs=3", "algorithm.rollout_length=6")


def parts() -> tuple[Model, Any, bytes]:
    environments = make_environments(SETTINGS.environment, num_envs=1, seed=0)
    try:
        observation, action = describe(environments.observation_space), environments.action
    finally:
        environments.close()
    packing, model = trajectory_format(SETTINGS, observation, action, 0), build(SETTINGS, observation, action)
    return model, packing, packing.pack([blank(SETTINGS, observation, model.network)], "none")


def undecided() -> tuple[UndecidedStore, bytes]:
    model, packing, body = parts()
    optimizer = make_optimizer(SETTINGS.optimizer, model.flat.vector, 0)
    return UndecidedStore(model, optimizer, SETTINGS.algorithm, unpack=packing.unpack, body=body), body


def gradient_body(size: int) -> bytes:
    return make_codec("none", size).encode(torch.linspace(-1.0, 1.0, size))


def test_it_begins_as_the_store_of_gradients_and_measuring_changes_nothing() -> None:
    store, _ = undecided()
    model, _, _ = parts()
    plain = ParameterStore(model.flat.vector, make_optimizer(SETTINGS.optimizer, model.flat.vector, 0))
    body = gradient_body(plain.vector.numel())
    for weight in (1.0, 0.5):
        for one in (store, plain):
            one.add(body, "none", weight)
        store.costs()
    assert store.step(scale=0.75, frames=0) == plain.step(scale=0.75, frames=0) == {}
    assert torch.equal(store.vector, plain.vector)
    assert store.body("fp32") == plain.body("fp32")
    costs = store.costs()
    assert costs.add > 0.0 and costs.step > 0.0 and costs.learn > 0.0


def test_changed_over_it_learns_from_rollouts_with_the_same_optimizer() -> None:
    store, body = undecided()
    model, packing, _ = parts()
    optimizer = make_optimizer(SETTINGS.optimizer, model.flat.vector, 0)
    trainer = Trainer(model, optimizer, SETTINGS.algorithm, unpack=packing.unpack)
    size = store.vector.numel()
    store.add(gradient_body(size), "none", 1.0)
    with pytest.raises(RuntimeError, match="wait"):
        store.change_over()
    store.step(scale=1.0, frames=0)
    ParameterStore.add(trainer, gradient_body(size), "none", 1.0)
    ParameterStore.step(trainer, scale=1.0, frames=0)
    store.change_over()
    for one in (store, trainer):
        one.add(body, "none", 1.0)
    assert store.step(scale=1.0, frames=18) == trainer.step(scale=1.0, frames=18) != {}
    assert torch.equal(store.vector, trainer.vector)
