"""What every model of a run has, whoever computes it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from common.errors import ConfigurationError
from common.rl.action_spec import ActionSpec, discrete
from common.rl.dense import model as dense
from common.rl.model import Model, fingerprint, plan
from common.rl.networks import model as torch_model
from common.rl.normalization import Normalization
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Algorithm, Environment, Network, Settings

BOX = ObservationSpec((4,), "box", 4)
BUILDS = pytest.mark.parametrize("build", [dense.build, torch_model.build])


@pytest.mark.parametrize(("kind", "space"), [("box", "Box"), ("multi-discrete", "MultiDiscrete")])
def test_values_of_actions_that_cannot_be_counted_are_refused_by_the_name_of_the_space(kind: str, space: str) -> None:
    action: Any = SimpleNamespace(kind=kind)
    with pytest.raises(ConfigurationError, match=f'"one-step-q" needs a Discrete action space, not {space}:'):
        plan(Settings(algorithm=Algorithm(kind="one-step-q")), BOX, action)


@BUILDS
def test_only_what_learns_values_has_a_target_network_with_parameters_of_its_own(build: Any) -> None:
    assert build(Settings(), BOX, discrete(2)).target is None
    model: Model = build(Settings(algorithm=Algorithm(kind="n-step-q")), BOX, discrete(2))
    weights, copied = model.vectors
    weights[:], copied[:] = 1.0, 2.0
    assert model.vector.max() == 1 and model.target is not None and model.target.vector.min() == 2
    model.extras.fill(7.0)
    assert model.frames.tolist() == [7.0], "a view, so that loading weights sets the clock"


@BUILDS
def test_the_vector_is_the_network_s(build: Any) -> None:
    model: Model = build(Settings(), BOX, discrete(2))
    model.vector.fill(0.0)
    model.vector[3 * 128 : 3 * 128 + 3] = [1, 2, 3]
    outputs, state = model.step(np.ones((5, 4), np.float32), np.zeros((5, 0), np.float32))
    assert outputs.tolist() == [[1, 2, 3]] * 5, "the biases of the head"
    assert state.shape == (5, 0)


def test_extras_are_statistics_and_the_frames_of_the_run() -> None:
    both = Settings(network=Network(normalize=True), environment=Environment(reward_normalize=True))
    _, normalization, extras = plan(both, BOX, discrete(2))
    assert normalization == Normalization(4, True)
    assert extras.tolist() == [0] * 4 + [1] * 5
    assert plan(Settings(algorithm=Algorithm(kind="n-step-q")), BOX, discrete(2))[2].tolist() == [0]


def test_the_network_s_setting_decides_the_log_standard_deviations() -> None:
    action = ActionSpec("box", (), (1,), (False,))
    assert plan(Settings(network=Network(log_std="state")), BOX, action)[0].log_std == "state"


def test_the_fingerprint_tells_architectures_and_shapes_apart() -> None:
    layouts: Any = [(("weight", (2, 3)),), (("weight", (3, 2)),), (("bias", (2, 3)),)]
    found = {fingerprint(text, layout) for text in ("one", "other") for layout in layouts}
    assert len(found) == 6 and {len(one) for one in found} == {16}
