"""Which models an actor computes without torch, and what it says where torch is missing."""

from __future__ import annotations

import sys

import pytest

from common.errors import TorchMissingError
from common.rl.action_spec import discrete
from common.rl.dense.model import DenseModel
from common.rl.models import build
from common.rl.networks.model import TorchModel
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Network, Settings

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


def test_where_torch_is_missing_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TorchMissingError, match=r"network \(conv-a3c\) needs torch, .*: pip install 'a3cd\[torch\]'"):
        build(Settings(network=Network(kind="conv-a3c")), PICTURE, discrete(2))
    build(Settings(), BOX, discrete(2))
