"""A model is the network of the settings, its parameters in one vector."""

import numpy as np
import pytest
import torch

from common.rl.action_spec import discrete
from common.rl.gradient import gradient
from common.rl.networks.model import build
from common.rl.networks.normalization import Normalized
from common.rl.normalization import Normalization
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Algorithm, Environment, Network, Settings
from tests.helpers.rollouts import COPIES, PICTURE, STEPS, make

BOX = ObservationSpec((4,), "box", 4)


def test_the_vector_is_the_networks() -> None:
    model = build(Settings(), BOX, discrete(2))
    before, _ = model.network(torch.ones(1, 4))
    before = before.clone()
    model.flat.vector.mul_(2)
    after, _ = model.network(torch.ones(1, 4))
    assert not torch.equal(before, after)


def test_the_seed_of_the_settings_decides() -> None:
    vectors = [build(Settings(seed=seed), BOX, discrete(2)).flat.vector for seed in (1, 1, 2)]
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.equal(vectors[0], vectors[2])


def test_only_what_learns_values_has_a_target_network_that_starts_alike() -> None:
    assert build(Settings(), BOX, discrete(2)).target is None
    model = build(Settings(algorithm=Algorithm(kind="n-step-q")), BOX, discrete(2))
    weights, copied = model.vectors
    assert (weights == copied).all()
    weights *= 2
    assert not (weights == copied).all()
    own = Network(kind="tests.helpers.own_networks:Elsewhere")
    model = build(Settings(algorithm=Algorithm(kind="n-step-q"), network=own), BOX, discrete(2))
    assert (model.vectors[0] == model.vectors[1]).all()


def test_moved_to_a_device_the_vectors_are_still_the_network_s() -> None:
    before = build(Settings(), BOX, discrete(2))
    vector = before.flat.vector.clone()
    model = before.to(torch.device("cpu"))
    assert torch.equal(model.flat.vector, vector)
    assert model.flat.hash == before.flat.hash
    model.network.features(torch.ones(1, 4)).sum().backward()
    assert model.flat.gradient.any() and not before.flat.gradient.any()
    model.flat.vector.zero_()
    assert not model.network(torch.ones(1, 4))[0].any()


def test_a_network_without_a_state_keeps_none_of_former_steps_alive() -> None:
    state = np.zeros((1, 0), np.float32)
    _, after = build(Settings(), BOX, discrete(2)).step(np.ones((1, 4), np.float32), state)
    assert after is state


@pytest.mark.parametrize(("observations", "rewards"), [(True, False), (False, True), (True, True), (False, False)])
def test_the_extras_are_those_of_the_layout_that_the_settings_ask_for(observations: bool, rewards: bool) -> None:
    network, environment = Network(normalize=observations), Environment(reward_normalize=rewards)
    model = build(Settings(network=network, environment=environment), BOX, discrete(3))
    assert model.normalization == Normalization(4 * observations, rewards)
    assert model.extras.tolist() == model.normalization.extras().tolist()
    assert isinstance(model.network, Normalized) == observations
    if observations:
        before = model.network(torch.ones(1, 4))[0]
        model.statistics[4:8] = 0.5
        assert not torch.equal(model.network(torch.ones(1, 4))[0], before), "one memory"


def test_a_twin_computes_the_same_with_parameters_of_its_own() -> None:
    for settings in (Settings(network=Network(normalize=True)), Settings(network=Network(lstm=4))):
        model = build(settings, BOX, discrete(3))
        twin = model.twin()
        seen, state = np.ones((2, 4), np.float32), np.zeros((2, model.state_size), np.float32)
        before = model.step(seen, state)[0]
        assert (twin.step(seen, state)[0] == before).all()
        model.flat.vector.mul_(2)
        assert (twin.step(seen, state)[0] == before).all()
        twin.flat.vector.copy_(model.flat.vector)
        model.extras[4:8] = 0.5  # of the running statistics, where there are some
        assert (twin.step(seen, state)[0] == model.step(seen, state)[0]).all()
        assert not (twin.step(seen, state)[0] == before).all()


@pytest.mark.parametrize("chunk", [3, 100])
def test_the_last_observations_take_a_way_back_where_something_is_learnt_by_them(chunk: int) -> None:
    model, rollout = make(PICTURE)
    model.network.chunk = chunk
    derivative = np.random.default_rng(0).normal(size=((STEPS + 1) * COPIES, 4)).astype(np.float32)
    for learnt in ((STEPS + 1) * COPIES, STEPS * COPIES):
        derivative[learnt:] = 0
        model.forward(rollout)
        model.backward(derivative)
        found = model.flat.gradient.clone()
        model.flat.zero()
        outputs = model.network.features(torch.from_numpy(rollout.observations).flatten(0, 1))
        torch.autograd.backward(outputs, torch.from_numpy(derivative))
        torch.testing.assert_close(found, model.flat.gradient, rtol=1e-4, atol=1e-4)


def test_no_loss_of_a_rollout_s_steps_learns_by_the_last_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rollout = make(PICTURE)
    seen: list[tuple[int, bool]] = []
    features = model.network.features

    def noted(observations: torch.Tensor) -> torch.Tensor:
        seen.append((len(observations), torch.is_grad_enabled()))
        return features(observations)

    monkeypatch.setattr(model, "_features", noted)
    gradient(model, rollout, Algorithm())
    assert seen == [(STEPS * COPIES, True), (COPIES, False)]
