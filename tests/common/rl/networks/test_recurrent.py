"""A network with a state: step by step it gives what a whole rollout gives at once."""

import pytest
import torch
from torch import Tensor

from common.rl.action_spec import discrete
from common.rl.networks.flat import flatten
from common.rl.networks.recurrent import Recurrent
from common.rl.networks.registry import build
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Network

BOX = ObservationSpec((4,), "box", 4)
PICTURE = ObservationSpec((4, 44, 44), "pixels", 4 * 44 * 44)
STEPS, COPIES, UNITS = 7, 3, 5


def network(observation: ObservationSpec = BOX, kind: str = "auto", lstm: int = UNITS) -> Recurrent:
    made = build(Network(kind=kind, lstm=lstm), observation, discrete(3), seed=1)
    assert isinstance(made, Recurrent)
    return made


def observations(spec: ObservationSpec) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    numbers = torch.randint(0, 256, (STEPS + 1, COPIES, *spec.shape), generator=generator)
    return numbers.to(torch.uint8) if spec is PICTURE else numbers / 128 - 1


@pytest.mark.parametrize(
    ("spec", "kind"), [(BOX, "dense"), (PICTURE, "dense"), (PICTURE, "conv-students"), (PICTURE, "conv-impala")]
)
def test_step_by_step_and_unrolled(spec: ObservationSpec, kind: str) -> None:
    net, x = network(spec, kind), observations(spec)
    generator = torch.Generator().manual_seed(3)
    first = torch.randn(COPIES, net.state_size, generator=generator)
    valid = torch.rand(STEPS, COPIES, generator=generator) < 0.7
    unrolled = net.unroll(net.features(x.flatten(0, 1)), first, valid)
    state, given = first, []
    for step in range(STEPS + 1):
        outputs, state = net.step(x[step], state)
        given.append(outputs)
        if step < STEPS:
            state = state * valid[step].unsqueeze(1)
    assert unrolled.shape == ((STEPS + 1) * COPIES, 4)
    torch.testing.assert_close(unrolled, torch.cat(given))


def test_outputs_depend_on_what_was_seen_before() -> None:
    net, x = network(), observations(BOX)
    none = torch.zeros(COPIES, net.state_size)
    fresh, _ = net.step(x[1], none)
    later, _ = net.step(x[1], net.step(x[0], none)[1])
    assert not torch.allclose(fresh, later, atol=1e-4)


def test_the_hash_tells_it_from_others() -> None:
    networks = (build(Network(), BOX, discrete(3), 1), network(), network(lstm=UNITS + 1), network(kind="dense"))
    hashes = [flatten(net).hash for net in networks]
    assert hashes[1] == hashes[3]
    assert len(set(hashes)) == 3


def test_all_its_parameters_are_in_the_vector_and_learn() -> None:
    net = network()
    flat = flatten(net)
    assert flat.size == 4 * 128 + 128 + 4 * UNITS * (128 + UNITS + 1) + 4 * (UNITS + 1)
    x = observations(BOX).flatten(0, 1)
    valid = torch.ones(STEPS, COPIES, dtype=torch.bool)
    net.unroll(net.features(x), torch.zeros(COPIES, net.state_size), valid).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in net.parameters())
    assert flat.gradient.any()
