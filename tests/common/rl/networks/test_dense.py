"""The dense trunk against the same layers written with torch.nn."""

from typing import Literal

import pytest
import torch
from torch import nn

from common.rl.dense.layout import TrunkLayout
from common.rl.networks.dense import DenseTrunk, encode
from common.rl.observation_spec import ObservationSpec


@pytest.mark.parametrize(("activation", "module"), [("relu", nn.ReLU), ("tanh", nn.Tanh)])
def test_equals_a_sequence_of_linear_layers(activation: Literal["relu", "tanh"], module: type[nn.Module]) -> None:
    generator = torch.Generator().manual_seed(3)
    trunk = DenseTrunk(TrunkLayout(ObservationSpec((2, 3), "box", 6), (8, 5), activation, 1.0), generator)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), module(), nn.Linear(8, 5), module())
    for ours, theirs in zip(trunk.parameters(), plain.parameters(), strict=True):
        ours.data += 0.1 * torch.randn(ours.shape, generator=generator)
        theirs.data = ours.data
    x = torch.randn(7, 2, 3, generator=generator)
    torch.testing.assert_close(trunk(x), plain(x))
    assert trunk.features == 5


def test_activation_and_observation_are_part_of_the_architecture() -> None:
    box, discrete = ObservationSpec((4,), "box", 4), ObservationSpec((), "discrete", 4)
    generator = torch.Generator()
    texts = {
        DenseTrunk(TrunkLayout(o, (8,), a, 1.0), generator).architecture
        for o in (box, discrete)
        for a in ("relu", "tanh")
    }
    assert len(texts) == 4


def test_box_is_flattened_unchanged() -> None:
    x = torch.randn(5, 2, 3)
    assert torch.equal(encode(ObservationSpec((2, 3), "box", 6), x), x.reshape(5, 6))
    single = torch.randn(5)
    assert torch.equal(encode(ObservationSpec((), "box", 1), single), single.reshape(5, 1))


def test_pixels_are_scaled_to_one() -> None:
    x = torch.tensor([[[0, 255], [51, 102]]], dtype=torch.uint8)
    encoded = encode(ObservationSpec((2, 2), "pixels", 4), x)
    torch.testing.assert_close(encoded, torch.tensor([[0.0, 1.0, 0.2, 0.4]]))
    assert x.max() == 255


def test_discrete_is_one_hot() -> None:
    encoded = encode(ObservationSpec((), "discrete", 4), torch.tensor([2, 0]))
    assert torch.equal(encoded, torch.tensor([[0.0, 0, 1, 0], [1, 0, 0, 0]]))
