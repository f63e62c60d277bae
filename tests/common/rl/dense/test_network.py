"""The numpy network against the learner's, in torch: the same outputs and the same gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from common.rl.action_masks import join
from common.rl.action_spec import ActionSpec, discrete
from common.rl.dense.layout import DenseLayout, trunk_layout
from common.rl.dense.network import KEPT_CHUNKS, DenseNetwork
from common.rl.networks.flat import FlatParameters, flatten
from common.rl.networks.heads import PolicyValue
from common.rl.networks.masking import Masked
from common.rl.networks.normalization import Normalized
from common.rl.networks.registry import build
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Network

BOX = ObservationSpec((2, 3), "box", 6)
OBSERVATIONS = {
    "box": BOX,
    "pixels": ObservationSpec((2, 4, 4), "pixels", 32),
    "discrete": ObservationSpec((), "discrete", 5),
}
ACTIONS = {
    "discrete": discrete(3),
    "multi-discrete": ActionSpec("multi-discrete", (2, 3), (2,)),
    "log-stds": ActionSpec("box", (), (2,), (False, True), "parameter"),
    "softplus": ActionSpec("box", (), (2,), (False, False), "state"),
}


class Pair:
    """The same network twice, with the same weights."""

    def __init__(
        self, observation: ObservationSpec, action: ActionSpec, section: Network, seed: int = 0, *, masks: bool = False
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.observation = observation
        self.masks = action.width if masks else 0
        self.extras = np.zeros(2 * observation.size if section.normalize else 0, np.float32)
        if section.normalize:
            self.extras[: observation.size] = self.rng.normal(size=observation.size)
            self.extras[observation.size :] = self.rng.uniform(0.1, 20, size=observation.size)
        network: PolicyValue = build(section, observation, action, seed)
        if section.normalize:
            network = Normalized(network, torch.from_numpy(self.extras), observation.size)
        if masks:
            network = Masked(network, observation)
        self.torch = network
        self.flat: FlatParameters = flatten(network)
        self.layout = DenseLayout(trunk_layout(section, observation), action, section.shared, section.normalize, masks)
        self.dense = DenseNetwork(self.layout, self.extras)
        shared = self.flat.vector.numpy()
        shared += self.rng.normal(0, 0.1, self.flat.size).astype(np.float32)
        self.dense.vector[:] = shared

    def observations(self, rows: int) -> NDArray[Any]:
        plain = self._plain(rows)
        return join(plain, self.rng.random((rows, self.masks)) < 0.5) if self.masks else plain

    def _plain(self, rows: int) -> NDArray[Any]:
        shape = (rows, *self.observation.shape)
        if self.observation.kind == "box":
            return self.rng.normal(size=shape).astype(np.float32)
        if self.observation.kind == "pixels":
            return self.rng.integers(0, 256, shape, np.uint8)
        return self.rng.integers(self.observation.size, size=shape)

    def check(self, rows: int = 11) -> None:
        """Outputs of acting and of a rollout, and the gradient of any loss of them."""
        observations = self.observations(rows)
        outputs = self.torch.features(torch.from_numpy(observations))
        expected = outputs.detach().numpy()
        np.testing.assert_allclose(self.dense.act(observations), expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(self.dense.forward(observations), expected, rtol=1e-5, atol=1e-5)
        derivative = self.rng.normal(size=expected.shape).astype(np.float32)
        self.flat.zero()
        outputs.backward(torch.from_numpy(derivative))  # type: ignore[no-untyped-call]
        self.dense.backward(derivative.copy())
        slopes = self.flat.gradient.numpy()
        assert self.layout.parameters == self.flat.layout
        assert self.layout.architecture == self.flat.architecture
        scale = np.abs(slopes).max()
        np.testing.assert_allclose(self.dense.gradient, slopes, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_it_is_the_learner_s_network(observation: str, action: str, shared: bool, activation: Any) -> None:
    section = Network(
        kind="dense",
        hidden=[8, 5],
        activation=activation,
        shared=shared,
        input_scale=0.5,
        log_std=ACTIONS[action].log_std,
    )
    Pair(OBSERVATIONS[observation], ACTIONS[action], section).check()


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("action", ["discrete", "multi-discrete"])
@pytest.mark.parametrize("observation", ["box", "discrete"])
def test_it_masks_actions_as_the_learner_s_does(observation: str, action: str, shared: bool, normalize: bool) -> None:
    if normalize and observation == "discrete":
        pytest.skip("they are not normalised")
    section = Network(kind="dense", hidden=[8, 5], shared=shared, normalize=normalize)
    pair = Pair(OBSERVATIONS[observation], ACTIONS[action], section, masks=True)
    pair.check()
    pair.dense.chunk = 4
    pair.check(4 * KEPT_CHUNKS + 3)


@given(
    hidden=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    scale=st.sampled_from([1.0, 0.01, 3.0]),
    shared=st.booleans(),
    activation=st.sampled_from(["relu", "tanh"]),
    action=st.sampled_from(sorted(ACTIONS)),
    rows=st.integers(1, 40),
    seed=st.integers(0, 2**16),
)
def test_normalised_and_of_any_size_too(
    hidden: list[int], scale: float, shared: bool, activation: Any, action: str, rows: int, seed: int
) -> None:
    section = Network(
        kind="dense",
        hidden=hidden,
        activation=activation,
        shared=shared,
        input_scale=scale,
        normalize=True,
        log_std=ACTIONS[action].log_std,
    )
    pair = Pair(BOX, ACTIONS[action], section, seed)
    pair.check(rows)
    pair.extras[:] = 1.0
    pair.check(rows)


@pytest.mark.parametrize("rows", [1, 7, 40, 8 * KEPT_CHUNKS, 8 * KEPT_CHUNKS + 1, 9 * KEPT_CHUNKS + 3])
@pytest.mark.parametrize("action", ["discrete", "log-stds"])
def test_chunks_add_up(rows: int, action: str) -> None:
    pair = Pair(BOX, ACTIONS[action], Network(kind="dense", hidden=[8, 5], shared=False))
    pair.dense.chunk = 8
    for _ in range(2):
        pair.check(rows)
    pair.check(rows + 1)


def test_of_wrong_weights_nothing_is_raised() -> None:
    pair = Pair(BOX, discrete(3), Network(kind="dense", hidden=[4, 4]))
    pair.dense.vector[:] = np.inf
    observations = pair.observations(5)
    assert not np.isfinite(pair.dense.act(observations)).all()
    pair.dense.backward(pair.dense.forward(observations))
    assert not np.isfinite(pair.dense.gradient).all()
