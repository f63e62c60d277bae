"""Which models an actor computes without torch, and what it says where torch is missing."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from common.errors import TorchMissingError
from common.rl.action_spec import discrete
from common.rl.dense.model import DenseModel
from common.rl.gradient import gradient
from common.rl.models import build
from common.rl.networks.model import TorchModel
from common.rl.observation_spec import ObservationSpec
from common.rl.rollout import Rollout
from common.settings.sections import Network, Optimizer, Settings

BOX = ObservationSpec((4,), "box", 4)
PICTURE = ObservationSpec((2, 36, 36), "pixels", 2 * 36 * 36)


@pytest.mark.parametrize(
    ("network", "observation", "numpy"),
    [
        (Network(), BOX, True),
        (Network(kind="dense", shared=False, normalize=True), BOX, True),
        (Network(kind="dense"), PICTURE, True),
        (Network(), PICTURE, False),
        (Network(kind="conv-nature"), ObservationSpec((4, 84, 84), "pixels", 4 * 84 * 84), False),
        (Network(lstm=4), BOX, False),
        (Network(kind="tests.helpers.own_networks:Small"), BOX, False),
    ],
)
def test_dense_networks_need_no_torch(network: Network, observation: ObservationSpec, numpy: bool) -> None:
    model = build(Settings(network=network), observation, discrete(2))
    assert isinstance(model, DenseModel if numpy else TorchModel)


def test_an_actor_makes_no_context_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the learner's device is: some hundred megabytes each, on a GPU that is the learner's."""

    def begun() -> None:
        raise AssertionError("a CUDA context")

    monkeypatch.setattr(torch.cuda, "_lazy_init", begun)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    settings = Settings(optimizer=Optimizer(device="cuda"), network=Network(lstm=4))
    model = build(settings, PICTURE, discrete(2))
    assert isinstance(model, TorchModel)
    assert model.flat.vector.device.type == "cpu"
    rows = np.zeros((3, 2, *PICTURE.shape), np.uint8)
    state = np.zeros((2, model.state_size), np.float32)
    model.step(rows[0], state)
    flags, numbers = np.zeros((2, 2), np.bool_), np.zeros((2, 2), np.float32)
    actions = np.zeros((2, 2), np.int64)
    gradient(model, Rollout(rows, actions, numbers, flags, ~flags, numbers, state), settings.algorithm)


def test_where_torch_is_missing_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TorchMissingError, match=r"network \(conv-a3c\) needs torch, .*: pip install 'a3cd\[torch\]'"):
        build(Settings(network=Network(kind="conv-a3c")), PICTURE, discrete(2))
    build(Settings(), BOX, discrete(2))
