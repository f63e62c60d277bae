from __future__ import annotations

import numpy as np
import pytest

from actor.weight_inbox import WeightInbox
from common.errors import CodecError
from common.rl.action_spec import discrete
from common.rl.networks.model import TorchModel, build
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Network, Settings
from common.wire.bodies.delta import DeltaFormat
from common.wire.bodies.weights import WeightsFormat

NONE = np.zeros(0, np.float32)


def model() -> TorchModel:
    return build(Settings(network=Network(hidden=[4])), ObservationSpec((2,), "box", 2), discrete(2))


SIZE = model().flat.size


def whole(value: float) -> bytes:
    return WeightsFormat("fp32", SIZE).pack([np.full(SIZE, value, np.float32)], NONE)


def change(keyframe: int, value: float) -> bytes:
    return DeltaFormat(SIZE).pack(keyframe, np.full(SIZE, value, np.float32), NONE)


def held(one: TorchModel) -> float:
    (value,) = one.flat.vector.unique().tolist()
    return float(value)


def test_the_newest_is_loaded_once() -> None:
    one = model()
    inbox = WeightInbox(one, "fp32", deltas=False)
    inbox.load()
    assert inbox.version == 0
    inbox.offer(3, whole(1.0))
    inbox.offer(4, whole(2.0))
    inbox.load()
    assert (inbox.version, held(one)) == (4, 2.0)
    one.flat.vector.zero_()
    inbox.load()
    assert (inbox.version, held(one)) == (4, 0.0), "there is nothing new"


def test_deltas_are_against_the_whole_weights_that_came_last_loaded_or_not() -> None:
    one = model()
    inbox = WeightInbox(one, "fp32", deltas=True)
    inbox.offer(3, whole(1.0))
    assert inbox.offer(5, change(3, 0.5), delta=True)
    inbox.load()
    assert (inbox.version, held(one)) == (5, pytest.approx(1.5))
    assert inbox.offer(9, change(3, -0.5), delta=True)
    inbox.load()
    assert (inbox.version, held(one)) == (9, pytest.approx(0.5)), "against the keyframe, not the delta before"
    inbox.offer(10, whole(4.0))
    inbox.load()
    assert (inbox.version, held(one)) == (10, 4.0)
    assert inbox.offer(11, change(10, 1.0), delta=True)
    inbox.load()
    assert (inbox.version, held(one)) == (11, pytest.approx(5.0))


@pytest.mark.parametrize("body", [change(4, 0.5), b"", bytes(7)])
def test_a_delta_against_other_weights_or_none_is_not_taken(body: bytes) -> None:
    one = model()
    inbox = WeightInbox(one, "fp32", deltas=True)
    inbox.offer(3, whole(1.0))
    assert not inbox.offer(5, body, delta=True)
    inbox.load()
    assert (inbox.version, held(one)) == (3, 1.0)


def test_keyframes_of_the_epoch_before_are_none() -> None:
    inbox = WeightInbox(model(), "fp32", deltas=True)
    inbox.offer(3, whole(1.0))
    inbox.load()
    assert inbox.keyframe == 3 and WeightInbox(model(), "fp32", deltas=False).keyframe is None
    inbox.forget()
    assert (inbox.version, inbox.keyframe) == (0, -1)
    assert not inbox.offer(6, change(3, 0.5), delta=True)


def test_a_keyframe_that_is_damaged_is_no_keyframe() -> None:
    inbox = WeightInbox(model(), "fp32", deltas=True)
    inbox.offer(3, whole(1.0)[:-1])
    with pytest.raises(CodecError, match="were expected"):
        inbox.load()
    assert (inbox.version, inbox.keyframe) == (0, -1)
    assert not inbox.offer(4, change(3, 0.5), delta=True)
