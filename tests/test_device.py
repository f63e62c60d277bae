"""A learner whose network is on another device: nothing is computed across devices, and nothing waits for a value."""

from __future__ import annotations

import dataclasses
import math
from argparse import Namespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import gpu
from benchmarks.gpu import equal, learnt
from common.rl.action_spec import ActionSpec, discrete
from common.rl.rollout import Rollout
from common.settings.sections import Algorithm, Environment, Exchange, Network, Optimizer, Settings
from common.wire.bodies.observations import ObservationCodec, StepBatch, unstacked
from common.wire.bodies.weights import WeightsFormat
from common.wire.codecs.registry import make as make_codec
from learner.exchange.policy_server import PolicyServer
from learner.parameters.device_trainer import DeviceTrainer, trainer_of
from learner.parameters.devices import Devices
from learner.parameters.gradient_sum import GradientSum
from learner.parameters.replicas import Replicas
from tests.helpers.fake_device import DEVICE, SEVERAL, NotHost, model_and_weights
from tests.helpers.rollouts import BOX, COPIES, PICTURE, make

pytestmark = pytest.mark.slow

PPO = Algorithm(kind="ppo", epochs=2, minibatches=2, target_kl=0.1)
ACTIONS = {
    "discrete": discrete(3),
    "multi-discrete": ActionSpec("multi-discrete", (2, 4, 3), (3,)),
    "box": ActionSpec("box", shape=(3,), squashed=(False, True, False)),
}


def settings_of(algorithm: Algorithm | None = None, optimizer: str = "adam", **network: Any) -> Settings:
    kind: Any = optimizer
    section = Optimizer(kind=kind, momentum=0.5)
    return Settings(algorithm=algorithm or Algorithm(), network=Network(**network), optimizer=section)


def rollout_of(settings: Settings, observation: Any, action: ActionSpec) -> Rollout:
    _, rollout = make(observation, action=action)
    state = np.zeros((COPIES, 2 * settings.network.lstm), np.float32) if settings.network.lstm else None
    return dataclasses.replace(rollout, state=state)


CASES = [
    (settings_of(), BOX, "discrete"),
    (settings_of(normalize=True), BOX, "box"),
    (settings_of(shared=False, log_std="state"), BOX, "box"),
    (settings_of(lstm=4), BOX, "multi-discrete"),
    (settings_of(kind="conv-a3c"), PICTURE, "discrete"),
    (settings_of(kind="conv-nature", optimizer="rmsprop"), PICTURE, "discrete"),
    (settings_of(kind="conv-impala", optimizer="sgd"), PICTURE, "multi-discrete"),
    (settings_of(kind="conv-impala", normalize=True), PICTURE, "discrete"),
    (settings_of(PPO, kind="conv-a3c", lstm=8), PICTURE, "discrete"),
    (settings_of(PPO, kind="conv-a3c", normalize=True), PICTURE, "discrete"),
    (settings_of(PPO, optimizer="rmsprop"), BOX, "box"),
    (settings_of(Algorithm(kind="n-step-q"), kind="conv-a3c"), PICTURE, "discrete"),
    (settings_of(Algorithm(kind="one-step-sarsa")), BOX, "discrete"),
    (settings_of(Algorithm(kind="a2c", normalize_advantages=True)), BOX, "discrete"),
]


@pytest.mark.parametrize(("settings", "observation", "action"), CASES)
def test_training_stays_on_the_device(settings: Settings, observation: Any, action: str) -> None:
    rollout = rollout_of(settings, observation, ACTIONS[action])
    model, weights = model_and_weights(settings, observation, ACTIONS[action])
    trainer = trainer_of(model, weights, settings.algorithm)
    assert isinstance(trainer, DeviceTrainer)
    for weight in (1.0, 0.5):
        trainer.add(rollout, weight=weight)
    assert set(trainer.step(scale=0.5, frames=100).statistics.values()) == {0.0}
    assert {one.device for one in (model.flat.vector, model.flat.gradient)} == {DEVICE}


@pytest.mark.parametrize(("settings", "observation", "action"), CASES)
def test_training_on_several_devices_mixes_none_of_them(settings: Settings, observation: Any, action: str) -> None:
    rollout = rollout_of(settings, observation, ACTIONS[action])
    model, weights = model_and_weights(settings, observation, ACTIONS[action])
    replicas = Replicas(model, SEVERAL[1:])
    trainer = trainer_of(model, weights, settings.algorithm, replicas=replicas)
    for weight in (1.0, 0.5):
        trainer.add(rollout, weight=weight)
    assert trainer.step(scale=0.5, frames=100).statistics
    found = [one.flat.gradient.device for one in replicas._models]
    assert (found, weights.vector.device) == ([*SEVERAL], DEVICE)


def test_what_is_on_another_device_is_seen_here() -> None:
    """The test above would pass without this one's error."""
    model, _ = model_and_weights(settings_of(), BOX, discrete(3))
    there = model.twin(SEVERAL[1])
    with pytest.raises(Exception, match="same device"):
        torch.cat([model.flat.gradient, there.flat.gradient])


def test_a_pass_that_does_not_fit_is_done_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(kind="conv-a3c")
    monkeypatch.setattr("common.rl.networks.chunks.OTHER_DEVICE_BYTES", 2**20)
    model, weights = model_and_weights(settings, PICTURE, discrete(3))
    trainer = trainer_of(model, weights, settings.algorithm)
    trainer.add(rollout_of(settings, PICTURE, discrete(3)))
    assert trainer.step(scale=1.0, frames=0).statistics


def test_each_rollout_s_own_gradient_is_looked_at_without_waiting() -> None:
    settings = settings_of()
    model, weights = model_and_weights(settings, BOX, discrete(3))
    trainer = trainer_of(model, weights, settings.algorithm)
    trainer.add(rollout_of(settings, BOX, discrete(3)))
    assert trainer._not_finite(trainer._waiting) == []


def test_gradients_of_actors_go_up_and_weights_come_down() -> None:
    model, weights = model_and_weights(settings_of(), BOX, discrete(3))
    added = GradientSum(weights)
    added.add(make_codec("none", model.size).encode(np.ones(model.size, np.float32)), "none", weight=1.0)
    added.step(scale=1.0, frames=0)
    for form, half in (("fp32", False), ("fp16", True)):
        vectors = weights.vectors(half=half)
        assert [vector.dtype for vector in vectors] == [np.float16 if half else np.float32]
        assert len(WeightsFormat(form, model.size).pack(vectors, weights.extras)) == model.size * (2 if half else 4)


def test_mixed_devices_are_seen_here() -> None:
    """The other tests would pass without this one's error."""
    model, _ = model_and_weights(settings_of(), BOX, discrete(3))
    with pytest.raises(Exception, match="same device"):
        model.network(torch.zeros(2, 4))
    with pytest.raises(Exception, match="_local_scalar_dense"):
        float(model.flat.vector.sum())


@pytest.mark.parametrize(("observation", "normalize"), [(BOX, True), (PICTURE, False), (PICTURE, True)])
@pytest.mark.parametrize("lstm", [0, 4])
def test_acting_stays_on_the_device(observation: Any, normalize: bool, lstm: int) -> None:
    steps, stack = 3, 2 if observation is PICTURE else 1
    settings = Settings(
        algorithm=Algorithm(rollout_length=steps),
        network=Network(lstm=lstm, normalize=normalize),
        environment=Environment(num_envs=4, frame_stack=stack),
        exchange=Exchange(kind="actions", groups=2),
    )
    model, weights = model_and_weights(settings, observation, discrete(3))
    trainer = trainer_of(model, weights, settings.algorithm)
    server = PolicyServer(trainer, settings, observation, discrete(3))
    groups = [server.open(0, group, 0) for group in range(2)]
    one = unstacked(observation, stack)
    packing = ObservationCodec(one, discrete(3), 2)
    for step in range(2 * steps + 1):
        seen = StepBatch(np.ones((2, *one.shape), one.dtype), np.ones(2, np.float32), *np.ones((2, 2), np.bool_))
        for group in groups:
            server.observe(group, packing.pack_seen(seen, begins=step == 0), begins=step == 0)
        assert bool(trainer.step(scale=1.0, frames=0).statistics) == (step in (steps, 2 * steps))
        server.renew()
        assert len(server.act(groups, version=step)) == 2


@pytest.mark.parametrize("kind", ["gradients", "trajectories", "actions"])
def test_the_benchmark_for_the_first_machine_with_a_gpu_runs(kind: str) -> None:
    """Here with the CPU in its place."""
    assert equal("cpu", kind) < 1e-6


def test_a_part_of_the_benchmark_that_fails_loses_nothing_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def good(given: Namespace) -> None:
        begun.append(given.device)

    def bad(given: Namespace) -> None:
        raise RuntimeError(f"CUDA error: {given.device}\nand advice")

    monkeypatch.setattr(gpu, "PARTS", (good, bad, good))
    given = Namespace(device="cuda", minutes=1.0)
    assert gpu.run(given, math.inf) == ["bad: RuntimeError: CUDA error: cuda"]
    assert begun == ["cuda"] * 2
    assert [text.partition(":")[0] for text in gpu.run(given, -math.inf)] == ["good", "bad", "good"]


@pytest.mark.parametrize(("network", "kind"), [("dense", "gradients"), ("dense", "trajectories")])
def test_the_benchmark_measures_a_small_network(network: str, kind: str) -> None:
    given = Namespace(actors=1, copies=2, seconds=0.05, warm_up=0.0)
    row = gpu.speed(given, kind, network, "cpu")
    assert len(row) == len(gpu.COLUMNS)
    assert row[2] > 0


def test_a_gpu_is_recommended_for_a_tenth_more_frames() -> None:
    assert gpu.recommended(100.0, 120.0).startswith("take the GPU")
    assert gpu.recommended(100.0, 105.0).startswith("take the CPU")


@pytest.mark.parametrize(("kind", "count"), [("trajectories", 1), ("actions", 1), ("actions", 2)])
def test_a_learner_on_devices_learns_what_one_on_a_cpu_does(
    kind: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it, with a CPU that is treated as another device, or as several."""
    expected = learnt("cpu", kind)
    monkeypatch.setattr("learner.parameters.weights.transport", lambda device: NotHost())
    monkeypatch.setattr("learner.build.open_devices", lambda name: Devices((torch.device("cpu"),) * count))
    np.testing.assert_allclose(learnt("cpu", kind), expected, atol=1e-5)
