from __future__ import annotations

import torch

from common.rl.named_tensors import to_tensors
from common.rl.networks.plain_layers import (
    Encode,
    Normalize,
    Residual,
    Scale,
    SubtractBackground,
    behind_pictures,
    channels_last,
)
from common.rl.observation_spec import ObservationSpec


def test_a_dense_layer_behind_pictures_finds_its_inputs_though_channels_come_first() -> None:
    pictures, weight = torch.randn(2, 3, 4, 5), torch.randn(6, 4 * 5 * 3)
    expected = pictures.permute(0, 2, 3, 1).flatten(1) @ weight.T
    named = behind_pictures("x", (6, 4 * 5 * 3), (4, 5))
    own = torch.from_numpy(to_tensors(weight.numpy().ravel(), [named])["x"])
    torch.testing.assert_close(pictures.flatten(1) @ own.T, expected)


def test_a_convolution_has_its_channels_first() -> None:
    weight = torch.randn(2, 3, 3, 4)
    named = channels_last("x", tuple(weight.shape))
    assert named.shape == (2, 4, 3, 3)
    own = torch.from_numpy(to_tensors(weight.numpy().ravel(), [named])["x"])
    torch.testing.assert_close(own, weight.permute(0, 3, 1, 2))


def test_what_pytorch_has_no_layers_for() -> None:
    assert Scale(0.5)(torch.tensor([4], dtype=torch.uint8)).tolist() == [2.0]
    assert Encode(ObservationSpec((), "discrete", 3), 1.0)(torch.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert Encode(ObservationSpec((1, 2), "box", 2), 0.5)(torch.tensor([[[2.0, 4.0]]])).tolist() == [[1.0, 2.0]]
    assert Encode(ObservationSpec((), "box", 1), 1.0)(torch.tensor([2.0, 4.0])).tolist() == [[2.0], [4.0]]
    pixels = torch.tensor([[[255, 0]]], dtype=torch.uint8)
    assert Encode(ObservationSpec((1, 2), "pixels", 2), 3.0)(pixels).tolist() == [[1.0, 0.0]]
    normalize = Normalize(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 1.0]), 5.0)
    assert normalize(torch.tensor([[2.0, -9.0]])).tolist() == [[2.0, -5.0]]
    subtract = SubtractBackground(torch.tensor([[[1.0, 9.0]]]), torch.tensor(0.5))
    assert subtract(torch.tensor([[[[7, 0]]]], dtype=torch.uint8)).tolist() == [[[[3.0, -4.5]]]]
    residual = Residual(2)
    for parameter in residual.parameters():
        torch.nn.init.ones_(parameter)
    assert residual(torch.full((1, 2, 1, 1), -1.0)).flatten().tolist() == [2.0, 2.0]


def test_they_say_what_they_do() -> None:
    assert repr(Scale(1 / 255)) == "Scale(0.00392157)"
    assert repr(Encode(ObservationSpec((4,), "box", 4), 0.1)) == "Encode(box, 4, 0.1)"
