import torch

from common.rl.action_spec import ActionSpec, discrete
from common.rl.networks.log_std import append_log_std, log_std


def test_parameters_stand_between_the_means_and_the_value() -> None:
    parameter = log_std(ActionSpec("box", shape=(2,), squashed=(False, False)))
    assert parameter is not None and parameter.tolist() == [0.0, 0.0]
    with torch.no_grad():
        parameter.copy_(torch.tensor([5.0, 6.0]))
    outputs = append_log_std(torch.tensor([[1.0, 2.0, 9.0], [3.0, 4.0, 8.0]]), parameter)
    assert outputs.tolist() == [[1.0, 2.0, 5.0, 6.0, 9.0], [3.0, 4.0, 5.0, 6.0, 8.0]]
    outputs.sum().backward()
    assert parameter.grad is not None and parameter.grad.tolist() == [2.0, 2.0]


def test_layers_that_give_all_there_is_are_left_alone() -> None:
    outputs = torch.zeros(2, 4)
    for action in (discrete(3), ActionSpec("box", shape=(), squashed=(True,), log_std="state")):
        assert log_std(action) is None
        assert append_log_std(outputs, None) is outputs
