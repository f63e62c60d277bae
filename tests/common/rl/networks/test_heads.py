"""Policy and value on one trunk or two."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from common.rl.action_spec import ActionSpec, discrete
from common.rl.dense.layout import TrunkLayout
from common.rl.networks.dense import DenseTrunk
from common.rl.networks.heads import Heads, append_log_std, log_std
from common.rl.observation_spec import ObservationSpec

OBSERVATION = ObservationSpec((4,), "box", 4)
LAYOUT = TrunkLayout(OBSERVATION, (8,), "tanh", 1.0)


def network(trunks: int) -> Heads:
    generator = torch.Generator().manual_seed(2)
    return Heads(
        [DenseTrunk(LAYOUT, generator) for _ in range(trunks)],
        discrete(3),
        generator,
    )


def gradient(module: nn.Module) -> float:
    return sum(float(p.grad.abs().sum()) for p in module.parameters() if p.grad is not None)


def test_shapes_and_start() -> None:
    for trunks in (1, 2):
        logits, values = network(trunks)(torch.randn(50, 4, generator=torch.Generator().manual_seed(0)))
        assert logits.shape == (50, 3)
        assert values.shape == (50,)
        assert logits.abs().max() < 0.1 < values.std()


def test_separate_trunks_do_not_meet() -> None:
    net = network(2)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    policy, value = net.trunks
    logits, _ = net(x)
    logits.square().sum().backward()
    assert gradient(policy) > 0 == gradient(value)
    net.zero_grad()
    net(x)[1].sum().backward()
    assert gradient(value) > 0 == gradient(policy)


def test_separate_heads_read_their_own_trunk() -> None:
    net = network(2)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    logits, values = net(x)
    policy, value = net.trunks
    torch.testing.assert_close(logits, policy(x) @ net.head_weight[:3].T + net.head_bias[:3])
    torch.testing.assert_close(values, value(x) @ net.head_weight[3] + net.head_bias[3])


@pytest.mark.parametrize("trunks", [1, 2])
def test_spreads_that_are_parameters_are_the_same_for_every_state(trunks: int) -> None:
    generator = torch.Generator().manual_seed(2)
    made = [DenseTrunk(LAYOUT, generator) for _ in range(trunks)]
    net = Heads(made, ActionSpec("box", shape=(2,), squashed=(True, True)), generator)
    assert net.log_std is not None
    net.log_std.data.copy_(torch.tensor([1.0, -1.0]))
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    numbers, values = net(x)
    assert numbers[:, 2:].tolist() == [[1.0, -1.0]] * 5
    torch.testing.assert_close(numbers[:, :2], net.trunks[0](x) @ net.head_weight[:2].T)
    torch.testing.assert_close(values, net.trunks[-1](x) @ net.head_weight[2])


def test_networks_of_other_actions_have_other_architectures() -> None:
    def of(action: ActionSpec) -> str:
        generator = torch.Generator().manual_seed(2)
        return Heads([DenseTrunk(LAYOUT, generator)], action, generator).architecture

    box = ActionSpec("box", shape=(2,), squashed=(True, True))
    assert len({of(one) for one in (box, replace(box, squashed=(True, False)), discrete(2), discrete(3))}) == 3
    assert of(discrete(2)) == of(discrete(3)), "their shapes differ"


def test_sharing_is_part_of_the_architecture() -> None:
    assert network(1).architecture != network(2).architecture


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
