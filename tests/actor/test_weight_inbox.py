from __future__ import annotations

import pytest
import torch

from actor.weight_inbox import Incoming
from common.errors import CodecError
from common.rl.action_spec import discrete
from common.rl.model import Model, build
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Network, Settings
from common.wire.bodies.delta import DeltaFormat
from common.wire.bodies.weights import WeightsFormat

NONE = torch.zeros(0)


def model() -> Model:
    return build(Settings(network=Network(hidden=[4])), ObservationSpec((2,), "box", 2), discrete(2))


SIZE = model().flat.size


def whole(value: float) -> bytes:
    return WeightsFormat("fp32", SIZE).pack([torch.full((SIZE,), value)], NONE)


def change(keyframe: int, value: float) -> bytes:
    return DeltaFormat(SIZE).pack(keyframe, torch.full((SIZE,), value), NONE)


def held(one: Model) -> float:
    (value,) = one.flat.vector.unique().tolist()
    return float(value)


def test_the_newest_is_loaded_once() -> None:
    one = model()
    incoming = Incoming(one, "fp32", deltas=False)
    assert incoming.load() is None
    incoming.offer(3, whole(1.0))
    incoming.offer(4, whole(2.0))
    assert (incoming.load(), held(one)) == (4, 2.0)
    assert incoming.load() is None


def test_a_keyframe_is_kept_though_a_delta_was_loaded_in_its_stead() -> None:
    one = model()
    incoming = Incoming(one, "fp32", deltas=True)
    incoming.offer(3, whole(1.0))
    incoming.offer(5, change(3, 0.5), delta=True)
    assert (incoming.load(), held(one)) == (5, pytest.approx(1.5))
    incoming.offer(9, change(3, -0.5), delta=True)
    assert (incoming.load(), held(one)) == (9, pytest.approx(0.5)), "against the keyframe, not the delta before"
    incoming.offer(10, whole(4.0))
    assert (incoming.load(), held(one)) == (10, 4.0)
    incoming.offer(11, change(10, 1.0), delta=True)
    assert (incoming.load(), held(one)) == (11, pytest.approx(5.0))


def test_a_delta_against_what_is_not_there_changes_nothing() -> None:
    one = model()
    incoming = Incoming(one, "fp32", deltas=True)
    incoming.offer(3, whole(1.0))
    incoming.load()
    incoming.offer(5, change(4, 0.5), delta=True)
    with pytest.raises(CodecError, match="against the keyframe 4"):
        incoming.load()
    assert held(one) == 1.0
    incoming.forget()
    incoming.offer(6, change(3, 0.5), delta=True)
    with pytest.raises(CodecError, match="against the keyframe 3"):
        incoming.load()  # of the epoch before


def test_a_keyframe_that_is_damaged_is_no_keyframe() -> None:
    one = model()
    incoming = Incoming(one, "fp32", deltas=True)
    incoming.offer(3, whole(1.0)[:-1])
    with pytest.raises(CodecError, match="were expected"):
        incoming.load()
    incoming.offer(4, change(3, 0.5), delta=True)
    with pytest.raises(CodecError, match="against the keyframe 3"):
        incoming.load()
