from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from actor.rollout_summary import RolloutSummary
from common.errors import AgainstOthersError, CodecError, TorchMissingError
from common.rl.episode import Episode
from common.rl.moments import MAX_MEAN, Moments
from common.settings.exchanges import MAX_LIST_ITEMS, MOST_SUMMED
from common.wire.codecs.base import Floats
from common.wire.codecs.registry import make
from common.wire.messages import MAX_FRAMES, MAX_STEPS
from learner.parameters.gradient_bound import GROWTH, GradientBound
from relay.sum_player import LARGEST_NORM, SumPlayer, SumSummary
from relay.weights import KeptWeights
from tests.helpers.run import gradient_of, settings_of, spec_of

SIZE = 600
NOTHING = Moments.empty(0)


def player(*assignments: str, codec: str = "none", counted: int = 0, size: int = SIZE) -> SumPlayer:
    spec = spec_of(settings_of("exchange.kind=gradients", *assignments), counted=counted)
    return SumPlayer(replace(spec, parameters=size), codec, KeptWeights(1, 100.0))


def vector(seed: int, norm: float = 0.3) -> Floats:
    values = np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)
    return values * np.float32(norm / np.linalg.norm(values))


def summary(version: int = 3, count: int = 1, **changed: Any) -> RolloutSummary:
    return RolloutSummary(**({"version": version, "steps": 20, "emulator_frames": 80, "count": count} | changed))


def add(
    total: SumPlayer, values: Floats, codec: str = "none", *, name: str = "a", number: int = 0, **changed: Any
) -> None:
    total.add(summary(**changed), codec, make(codec, SIZE).encode(values), NOTHING, source=name, number=number)


def test_gradients_of_any_codec_are_added_up_and_the_header_tells_of_all() -> None:
    total = player()
    episodes = [Episode(1.0, 5, 0.1), Episode(2.0, 6, 0.2)]
    add(total, vector(0), version=7, episodes=episodes, statistics={"entropy": 1.0}, number=4)
    add(total, vector(1), "fp16", version=5, count=3, steps=60, statistics={"entropy": 3.0})
    add(total, vector(2), "int8+lz4", version=9, episodes=[Episode(3.0, 7, 0.3)], statistics={"entropy": 0.0}, number=8)
    assert total.pending == 5
    header, body = total.pack(1)
    assert isinstance(header, SumSummary)
    assert (header.version, header.count, header.steps, header.emulator_frames) == (5, 5, 100, 240)
    assert [one.length for one in header.episodes] == [5, 6, 7] and header.players == [4, 4, 8]
    assert header.fields()["summed"] is True
    assert header.statistics == pytest.approx({"entropy": 2.0})
    wanted = vector(0) + vector(1) + vector(2)
    assert np.abs(np.frombuffer(body, np.float32) - wanted).max() < 3e-3
    assert total.pending == 0
    add(total, vector(3))
    assert np.array_equal(np.frombuffer(total.pack(2)[1], np.float32), vector(3)), "nothing is left of the one before"


@pytest.mark.parametrize("codec", ["none", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("packed", ["none", "int8", "bf16"])
def test_the_learner_takes_every_sum_of_honest_gradients(codec: str, packed: str) -> None:
    """All of the longest kind, and in one direction."""
    total, bound = player("algorithm.max_grad_norm=0.5", codec=packed), GradientBound(0.5)
    values = np.zeros(SIZE, np.float32)
    values[0] = 0.5  # int8 keeps the largest as it is, and rounds all others
    for count in range(MOST_SUMMED):
        add(total, values if count % 2 else vector(1, 0.5), codec)
    header, body = total.pack(1)
    decoded = np.zeros(SIZE, np.float32)
    make(packed, SIZE).decode(body, decoded)
    bound.check(float(np.linalg.norm(decoded)), packed, header.count, SIZE, summed=True)


def test_a_sum_that_owes_what_packing_lost_stays_within_the_learner_s_bound() -> None:
    """Error feedback, on both ways: each gradient may bring a residual, and the sum has its own."""
    total, bound = player("algorithm.max_grad_norm=0.5", codec="top-k"), GradientBound(0.5)
    decoded, sent, owed = np.zeros(SIZE, np.float32), np.zeros(SIZE), np.zeros(SIZE)
    for sequence in range(1, 60):
        for one in range(4):
            add(total, vector(sequence * 10 + one, 0.5))
            owed += vector(sequence * 10 + one, 0.5)
        header, body = total.pack(sequence)
        make("top-k", SIZE).decode(body, decoded)
        bound.check(float(np.linalg.norm(decoded)), "top-k", header.count, SIZE, summed=True)
        sent += decoded
        total.answered(sequence, dropped=False)
    assert np.linalg.norm(owed - sent) < 33 * 0.5, "what was lost is sent later"
    total.forget()
    add(total, np.zeros(SIZE, np.float32))
    make("top-k", SIZE).decode(total.pack(99)[1], decoded)
    assert not decoded.any()


def test_what_is_no_gradient_of_an_honest_actor_is_not_added() -> None:
    total = player("algorithm.max_grad_norm=0.5")
    add(total, vector(0))
    bad = np.full(SIZE, np.nan, np.float32)
    for values, why in ((bad, "not finite"), (vector(1, 0.5 * GROWTH + 0.01), "of norm")):
        with pytest.raises(CodecError, match=why):
            add(total, values, episodes=[Episode(1.0, 5, 0.1)])
    with pytest.raises(CodecError, match="body"):
        total.add(summary(), "none", b"short", NOTHING, source="a", number=0)
    header, body = total.pack(1)
    assert (header.count, header.episodes) == (1, [])
    assert np.array_equal(np.frombuffer(body, np.float32), vector(0))


def test_where_gradients_are_not_clipped_none_makes_a_sum_that_is_too_long() -> None:
    total = player("algorithm.max_grad_norm=0")
    with pytest.raises(CodecError, match="too long"):
        add(total, vector(0, 1.1 * LARGEST_NORM))
    for _ in range(MOST_SUMMED):
        add(total, vector(0, 0.99 * LARGEST_NORM))
    header, body = total.pack(1)
    norm = float(np.linalg.norm(np.frombuffer(body, np.float32).astype(np.float64)))
    GradientBound(0.0).check(norm, "none", header.count, SIZE, summed=True)


def test_a_sum_is_not_longer_than_the_learner_takes_in_anything() -> None:
    total = player()
    assert total.has_room(gradient_of(count=30, steps=600)), "what is long by itself goes alone"
    add(total, vector(0), count=10)
    assert total.has_room(gradient_of(count=MOST_SUMMED - 10))
    assert not total.has_room(gradient_of(count=MOST_SUMMED - 9))
    assert not total.has_room(gradient_of(steps=MAX_STEPS - 19))
    assert not total.has_room(gradient_of(emulator_frames=MAX_FRAMES - 79))
    add(total, vector(0), episodes=[Episode(0.0, 1, 0.0)] * MAX_LIST_ITEMS)
    assert not total.has_room(gradient_of(episodes=[(0.0, 1, 0.0)]))


def test_moments_are_merged_into_one_and_those_of_a_liar_go_nowhere() -> None:
    total = player(counted=2)
    rows = np.random.default_rng(0).standard_normal((40, 2))
    for part in (rows[:20], rows[20:]):
        total.add(summary(), "none", vector(0).tobytes(), Moments.from_rows(part), source="a", number=0)
    header, _ = total.pack(1)
    ((count, means, squares),) = header.moments
    assert count == header.steps == 40
    assert np.allclose(means, rows.mean(axis=0))
    assert np.allclose(squares, np.square(rows - rows.mean(axis=0)).sum(axis=0))
    far = Moments(20, np.full(2, MAX_MEAN), np.zeros(2))
    near = Moments(20, np.full(2, -MAX_MEAN), np.full(2, 20 * MAX_MEAN**2))
    total.add(summary(), "none", vector(0).tobytes(), far, source="a", number=0)
    with pytest.raises(CodecError, match="moments"):
        total.add(summary(), "none", vector(0).tobytes(), near, source="a", number=0)
    assert total.pack(2)[0].count == 1


def test_who_sends_the_opposite_of_the_others_is_left_out_of_the_site_s_sums() -> None:
    total = player("exchange.robust=agreement")
    common, out = vector(0, 1.0), 0
    for turn in range(400):
        for number, name in enumerate(("a", "b", "c", "liar")):
            noise = vector(1 + 4 * turn + number, 1.0)
            try:
                add(total, (common + noise) * np.float32(-0.1 if name == "liar" else 0.1), name=name)
            except AgainstOthersError:
                out += name == "liar"
        total.pack(turn)
    assert out > 50


def test_the_agreement_needs_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "learner.parameters.agreement", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TorchMissingError, match="agreement"):
        player("exchange.robust=agreement")


def test_weights_are_kept_and_not_loaded() -> None:
    weights = KeptWeights(1, 100.0)
    total = SumPlayer(spec_of(settings_of("exchange.kind=gradients")), "none", weights)
    assert total.keyframe == -1
    assert total.load(4, b"body") and (weights.version, total.keyframe) == (4, 4)
    assert not total.load(5, bytes(16), delta=True)
    assert not math.isnan(total.pending)
    total.close()
