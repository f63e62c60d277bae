from __future__ import annotations

import math

import pytest

from common.wire.bodies.delta import KEYFRAME
from common.wire.messages import Pull, Weights
from learner.connections import Progress
from learner.effects import Publish, Send
from learner.parameters.publisher import HOLD_SECONDS, WELCOME_BYTES
from learner.parameters.pulls import UNDER_WAY_SECONDS
from relay.weights import NONE, KeptWeights

BODY, OTHER = b"whole" * 100, b"newer" * 100
MBIT = 0.08
"""10,000 bytes a second."""


def kept(version: int = 5, body: bytes = BODY, *, mbit: float = MBIT) -> KeptWeights:
    weights = KeptWeights(1, mbit)
    assert weights.load(version, body, delta=False)
    return weights


def delta(keyframe: int, content: bytes = b"d") -> bytes:
    return KEYFRAME.pack(keyframe) + content


def whole(peer: bytes, version: int, body: bytes) -> Send:
    return Send(peer, Weights(version=version, epoch=1), body)


def test_without_weights_nothing_can_begin() -> None:
    weights = KeptWeights(1, MBIT)
    assert (weights.there, weights.version, weights.deadline) == (False, NONE, math.inf)
    assert not weights.load(3, delta(1), delta=True), "a delta against weights that are not here"
    assert kept().there


def test_a_broadcast_goes_on_as_it_is_and_the_newest_once_the_one_before_is_through() -> None:
    weights = kept()
    weights.heard(b"f" * 1000, 6, delta=False)
    assert weights.due(0.0, 2) == [Publish(b"f" * 1000)]
    weights.heard(b"g" * 1000, 7, delta=False)
    weights.heard(b"h" * 1000, 8, delta=False)
    assert weights.deadline == pytest.approx(0.2), "two copies of a thousand bytes"
    assert weights.due(0.19, 2) == []
    assert weights.due(0.21, 2) == [Publish(b"h" * 1000)]
    assert weights.deadline == math.inf


def test_an_older_broadcast_which_a_reconnect_may_bring_stops_here() -> None:
    weights = kept()
    weights.heard(b"f", 6, delta=False)
    weights.heard(b"e", 5, delta=False)
    assert weights.due(0.0, 1) == [Publish(b"f")]


def test_a_keyframe_goes_before_its_delta_and_no_delta_of_the_keyframe_before_comes_between() -> None:
    weights = kept(mbit=8000.0)
    weights.heard(b"old delta", 6, delta=True)
    weights.heard(b"keyframe", 7, delta=False)
    weights.heard(b"delta", 8, delta=True)
    weights.heard(b"newer delta", 9, delta=True)
    assert weights.due(0.0, 1) == [Publish(b"keyframe")]
    assert weights.due(HOLD_SECONDS / 2, 1) == [], "an actor looks every 20 ms, and keeps only the newest"
    assert weights.due(HOLD_SECONDS, 1) == [Publish(b"newer delta")]


def test_a_delta_that_comes_just_after_its_keyframe_has_gone_on_waits_until_that_is_read() -> None:
    weights = kept(mbit=8000.0)
    weights.heard(b"keyframe", 7, delta=False)
    assert weights.due(0.0, 1) == [Publish(b"keyframe")]
    weights.heard(b"delta", 8, delta=True)
    assert weights.due(HOLD_SECONDS / 2, 1) == []
    assert weights.deadline == HOLD_SECONDS
    assert weights.due(HOLD_SECONDS, 1) == [Publish(b"delta")]
    weights.heard(b"keyframe", 9, delta=False)
    assert weights.due(HOLD_SECONDS + 0.001, 1) == [Publish(b"keyframe")], "which needs none before it"


def test_who_joins_is_given_small_weights_and_pulls_large_ones() -> None:
    assert kept().first(0.0, b"a") == (5, BODY)
    assert kept(body=bytes(WELCOME_BYTES + 1)).first(0.0, b"a") == (5, None)


def test_a_pull_is_answered_with_the_keyframe_and_then_the_delta_against_it() -> None:
    weights = kept()
    assert weights.load(7, delta(5), delta=True)
    assert weights.version == 7
    assert weights.pulled(0.0, b"a", Pull(version=0, whole=True)) == []
    difference = Send(b"a", Weights(version=7, epoch=1, delta=True), delta(5))
    assert weights.due(0.0, 1) == [whole(b"a", 5, BODY), difference]
    weights.pulled(1.0, b"b", Pull(version=6))
    assert weights.due(1.0, 1) == [Send(b"b", difference.message, difference.body)], "it has the keyframe"


def test_who_has_the_newest_is_told_so_at_once() -> None:
    assert kept().pulled(0.0, b"a", Pull(version=5)) == [Send(b"a", Weights(version=5, epoch=1))]


def test_newer_whole_weights_take_the_place_of_older_deltas() -> None:
    weights = kept()
    weights.load(7, delta(5), delta=True)
    weights.load(8, OTHER, delta=False)
    weights.pulled(0.0, b"a", Pull(version=7))
    assert weights.due(0.0, 1) == [whole(b"a", 8, OTHER)]


def test_pulls_take_turns_as_the_site_s_network_allows() -> None:
    weights = kept(body=bytes(1000))
    for peer in (b"a", b"b"):
        weights.pulled(0.0, peer, Pull(version=0))
    assert [effect.peer for effect in weights.due(0.0, 2) if isinstance(effect, Send)] == [b"a"]
    assert weights.deadline == pytest.approx(0.1)
    assert [effect.peer for effect in weights.due(0.11, 2) if isinstance(effect, Send)] == [b"b"]


def test_no_second_copy_goes_out_while_the_first_is_under_way() -> None:
    weights = kept(body=bytes(1000))
    weights.first(0.0, b"a")
    weights.pulled(1.0, b"a", Pull(version=0, whole=True))
    assert weights.due(1.0, 1) == []
    weights.progress({b"a": Progress(moved=20.0, acknowledged=10)})
    weights.pulled(UNDER_WAY_SECONDS + 1.0, b"a", Pull(version=0, whole=True))
    assert weights.due(UNDER_WAY_SECONDS + 1.0, 1) == [], "it arrives, slowly"
    weights.left(b"a")
    weights.pulled(UNDER_WAY_SECONDS + 2.0, b"a", Pull(version=0, whole=True))
    assert len(weights.due(UNDER_WAY_SECONDS + 2.0, 1)) == 1, "it has come anew"
