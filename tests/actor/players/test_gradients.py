from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from actor.players.gradients import GradientPlayer
from common.errors import NonFiniteError
from common.wire.codecs.registry import make as make_codec
from tests.actor.players.conftest import Make, flat_of
from tests.helpers.environments import Scripted

FOREVER, NO_TIME = math.inf, -math.inf
SIZE = flat_of().size
PPO = ("algorithm.kind=ppo", "exchange.kind=gradients")
Weights = Callable[[float], bytes]


def packed(player: GradientPlayer, codec: str = "none", sequence: int | None = None) -> NDArray[np.float32]:
    """The decoded body; top-k keeps a tenth."""
    out = np.empty(SIZE, np.float32)
    make_codec(codec, SIZE).decode(player.pack(sequence)[1], out)
    return out


def played(player: GradientPlayer, codec: str = "none", sequence: int | None = None) -> NDArray[np.float32]:
    assert player.advance(FOREVER)
    return packed(player, codec, sequence)


def test_a_rollout_is_pending_until_it_is_packed(environments: Scripted, make: Make) -> None:
    player = make(GradientPlayer)
    assert [player.advance(NO_TIME) for _ in range(6)] == [False] * 5 + [True]
    assert player.pending == 1
    summary, _ = player.pack(1)
    assert player.pending == 0
    assert (summary.version, summary.steps, summary.emulator_frames, summary.count) == (10, 10, 40, 1)
    assert set(summary.statistics) == {
        "policy_loss",
        "value_loss",
        "entropy",
        "gradient_norm",
        "ratio",
        "kl",
        "explained_variance",
        "clip_fraction",
    }
    assert summary.statistics["ratio"] == pytest.approx(1.0)
    assert summary.statistics["entropy"] == pytest.approx(math.log(3), abs=0.01)


def test_gradients_are_added_up_until_they_are_packed(environments: Scripted, make: Make) -> None:
    player, summed = make(GradientPlayer), make(GradientPlayer)
    singles = [played(player) for _ in range(3)]
    environments.reset()
    for _ in range(3):
        summed.advance(FOREVER)
    assert summed.pending == 3
    total = packed(summed)
    assert np.abs(total).max() > 0.0
    np.testing.assert_allclose(total, sum(singles), rtol=1e-4, atol=1e-6)
    assert not packed(summed).any(), "a new sum starts"


def test_the_gradient_is_packed_by_the_codec_of_the_welcome(environments: Scripted, make: Make) -> None:
    expected = played(make(GradientPlayer))
    environments.reset()
    got = played(make(GradientPlayer, codec="int8+zstd"), "int8+zstd")
    np.testing.assert_allclose(got, expected, atol=np.abs(expected).max() / 100)


def test_top_k_sends_the_fraction_of_the_settings(environments: Scripted, make: Make) -> None:
    player = make(GradientPlayer, "exchange.top_k=0.25", codec="top-k")
    player.advance(FOREVER)
    out = np.empty(SIZE, np.float32)
    make_codec("top-k", SIZE, 0.25).decode(player.pack(1)[1], out)
    assert np.count_nonzero(out) == math.ceil(SIZE / 4)


def test_with_refresh_the_gradient_uses_newer_weights_and_keeps_the_version_that_acted(
    environments: Scripted, make: Make, weights: Weights
) -> None:
    player = make(GradientPlayer, "algorithm.correction='none'", body=weights(0.0))
    player.advance(NO_TIME)
    assert player.load(11, weights(0.25))
    player.advance(FOREVER)
    summary, _ = player.pack(1)
    assert (summary.version, player.weights.version) == (10, 11)


def test_a_gradient_that_is_not_finite_adds_nothing(environments: Scripted, make: Make, weights: Weights) -> None:
    first = played(make(GradientPlayer))
    environments.reset()
    player = make(GradientPlayer)
    player.advance(FOREVER)
    player.load(11, weights(math.nan))
    with pytest.raises(NonFiniteError, match="gradient is not finite"):
        player.advance(FOREVER)
    assert player.pending == 1
    np.testing.assert_array_equal(packed(player), first)
    player.load(12, weights(0.5))
    player.restart()
    assert np.isfinite(played(player)).all()


def test_forgetting_drops_the_sum_and_what_packing_lost(environments: Scripted, make: Make) -> None:
    player = make(GradientPlayer, "exchange.error_feedback=true", codec="int8")
    played(player, "int8", 1)
    player.advance(FOREVER)
    player.forget()
    assert player.pending == 0
    assert not packed(player, "int8").any()


def test_a_dropped_gradient_takes_its_packing_loss_along(environments: Scripted, make: Make) -> None:
    def bodies(*dropped: bool) -> list[bytes]:
        """Of gradients of which the learner dropped some; `sign` has error feedback by itself."""
        environments.reset()
        player = make(GradientPlayer, codec="sign")
        packed_ = []
        for number, drop in enumerate(dropped):
            player.advance(FOREVER)
            packed_.append(player.pack(number)[1])
            player.answered(number, dropped=drop)
            player.answered(number, dropped=True)
        return packed_

    applied, dropped = bodies(False, False, False), bodies(False, True, False)
    assert applied[:2] == dropped[:2]
    assert applied[2] != dropped[2]


def test_without_error_feedback_an_answer_changes_nothing(environments: Scripted, make: Make) -> None:
    player, unanswered = make(GradientPlayer, codec="int8"), make(GradientPlayer, codec="int8")
    played(player, "int8", 1)
    player.answered(1, dropped=False)
    second = played(player, "int8", 2)
    environments.reset()
    played(unanswered, "int8", 1)
    np.testing.assert_array_equal(played(unanswered, "int8", 2), second)


def test_error_feedback_makes_up_later_for_what_was_lost(environments: Scripted, make: Make) -> None:
    exact, lossy = make(GradientPlayer), make(GradientPlayer, "exchange.error_feedback=true", codec="int8")
    sums = np.zeros(SIZE), np.zeros(SIZE)
    largest = 0.0
    for player, codec, total in ((exact, "none", sums[0]), (lossy, "int8", sums[1])):
        environments.reset()
        for _ in range(20):
            total += played(player, codec)
            largest = max(largest, float(np.abs(total).max()))
    assert np.abs(sums[0] - sums[1]).max() < largest / 100


def test_ppo_computes_gradients_of_a_rollout_several_times_on_ever_newer_weights(
    environments: Scripted, make: Make, weights: Weights
) -> None:
    player = make(GradientPlayer, *PPO, "algorithm.epochs=3")
    told = []
    for version in range(11, 16):
        player.advance(FOREVER)
        summary, body = player.pack(version)
        assert any(body)
        told.append((summary.version, summary.steps > 0))
        player.load(version, weights(0.01 * version))
    assert told == [(10, True), (11, False), (12, False), (13, True), (14, False)]
    player.restart()
    player.advance(FOREVER)
    assert player.pack(1)[0].steps > 0, "a restart drops the rollout that was to be used again"


def test_closing_closes_the_environments(environments: Scripted, make: Make) -> None:
    make(GradientPlayer).close()
    assert environments.closed
