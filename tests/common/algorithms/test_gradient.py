"""What every algorithm's gradient has in common: chunks of observations, and the clipped norm."""

import pytest
import torch

from common.algorithms.gradient import clip_norm, gradient
from common.settings.sections import Algorithm
from tests.helpers.rollouts import BOX, PICTURE, make

UNCLIPPED = Algorithm(gradient_clip=0.0)


@pytest.mark.parametrize("chunk", [1, 2, 20, 64])
def test_chunks_add_up(chunk: int) -> None:
    model, rollout = make(PICTURE)
    whole = gradient(model, rollout, UNCLIPPED)
    expected = model.flat.gradient.clone()
    model.network.chunk = chunk
    parts = gradient(model, rollout, UNCLIPPED)
    assert parts == pytest.approx(whole, rel=1e-3)
    torch.testing.assert_close(model.flat.gradient, expected, rtol=1e-3, atol=1e-4)


def test_the_gradient_is_clipped_and_the_norm_is_the_one_before() -> None:
    model, rollout = make(BOX)
    norm = gradient(model, rollout, UNCLIPPED).gradient_norm
    direction = model.flat.gradient / norm
    clipped = gradient(model, rollout, Algorithm(gradient_clip=norm / 2))
    assert clipped.gradient_norm == pytest.approx(norm)
    torch.testing.assert_close(model.flat.gradient, direction * norm / 2)


def test_clip_norm_leaves_what_is_small_enough() -> None:
    for largest in (0.0, 5.0, 9.0):
        vector = torch.tensor([3.0, 4.0])
        assert clip_norm(vector, largest) == pytest.approx(5.0)
        assert vector.tolist() == [3.0, 4.0]
