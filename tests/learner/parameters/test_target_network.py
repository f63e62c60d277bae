"""When the copy of the weights is renewed, and the clock that actors read."""

import torch

from learner.parameters.target_network import TargetNetwork


def test_it_is_renewed_with_the_first_step_beyond_each_multiple() -> None:
    clock, vector = torch.zeros(1), torch.zeros(3)
    target = TargetNetwork(vector, 100, clock, 0)
    renewed = []
    for step, frames in enumerate((40, 90, 120, 130, 190, 205, 430, 440, 499), start=1):
        target.stepped(torch.full((3,), float(step)), frames)
        assert clock.item() == frames
        renewed.append(int(vector[0]))
    assert renewed == [0, 0, 3, 3, 3, 6, 7, 7, 7]


def test_a_resumed_run_keeps_to_the_multiples() -> None:
    clock, vector = torch.zeros(1), torch.full((3,), 5.0)
    target = TargetNetwork(vector, 100, clock, 170)
    assert clock.item() == 170, "actors explore as much as before"
    target.stepped(torch.ones(3), 190)
    assert vector.tolist() == [5.0] * 3
    target.stepped(torch.ones(3), 200)
    assert vector.tolist() == [1.0] * 3
