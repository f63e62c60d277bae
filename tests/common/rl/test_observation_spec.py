"""Observations as the network sees them."""

import pytest
import torch

from common.rl.observation_spec import ObservationSpec, encode


def test_box_is_flattened_unchanged() -> None:
    x = torch.randn(5, 2, 3)
    assert torch.equal(encode(ObservationSpec((2, 3), "box", 6), x), x.reshape(5, 6))


def test_pixels_are_scaled_to_one() -> None:
    x = torch.tensor([[[0, 255], [51, 102]]], dtype=torch.uint8)
    encoded = encode(ObservationSpec((2, 2), "pixels", 4), x)
    torch.testing.assert_close(encoded, torch.tensor([[0.0, 1.0, 0.2, 0.4]]))
    assert x.max() == 255


def test_discrete_is_one_hot() -> None:
    encoded = encode(ObservationSpec((), "discrete", 4), torch.tensor([2, 0]))
    assert torch.equal(encoded, torch.tensor([[0.0, 0, 1, 0], [1, 0, 0, 0]]))


@pytest.mark.parametrize(
    ("kind", "dtype"), [("box", torch.float32), ("pixels", torch.uint8), ("discrete", torch.int64)]
)
def test_dtype(kind: str, dtype: torch.dtype) -> None:
    assert ObservationSpec(() if kind == "discrete" else (3,), kind, 3).dtype == dtype  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "kind", "size"), [((2, 3), "box", 5), ((0,), "box", 0), ((3,), "discrete", 3), ((), "discrete", 0)]
)
def test_a_size_that_does_not_fit_is_refused(shape: tuple[int, ...], kind: str, size: int) -> None:
    with pytest.raises(ValueError, match="size"):
        ObservationSpec(shape, kind, size)  # type: ignore[arg-type]
