"""A network in PyTorch's own layers computes what the fast one does, and its parameters have PyTorch's shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from common.rl.action_masks import FORBIDDEN, masked
from common.rl.action_spec import ActionSpec, discrete
from common.rl.named_tensors import to_tensors, to_vector
from common.rl.networks.model import build
from common.rl.networks.plain import PlainNetwork, named_tensors
from common.rl.observation_spec import ObservationSpec
from tests.common.rl.networks.test_pictures import some_background
from tests.helpers.run import settings_of

BOX = ObservationSpec((2, 3), "box", 6)
GREY = ObservationSpec((4, 46, 45), "pixels", 4 * 46 * 45)
"""What is beyond the last whole block is left out."""
STATES = ObservationSpec((), "discrete", 7)
NUMBERS = ActionSpec("box", shape=(2,), squashed=(True, False))
CASES: dict[str, tuple[tuple[str, ...], ObservationSpec, ActionSpec]] = {
    "dense": (("network.hidden=[5,4]",), BOX, discrete(3)),
    "tanh, scaled, apart": (
        ("network.activation=tanh", "network.shared=false", "network.input_scale=0.1", "network.hidden=[5]"),
        BOX,
        discrete(3),
    ),
    "normalised": (("network.normalize=true",), BOX, NUMBERS),
    "log-std of the state": (("network.log_std=state",), BOX, NUMBERS),
    "one-hot": (("network.hidden=[5]",), STATES, ActionSpec("multi-discrete", (2, 3), (2,))),
    "dense on pictures": (("network.kind=dense", "network.hidden=[5]"), GREY, discrete(2)),
    "values": (("algorithm.kind=n-step-q",), BOX, discrete(3)),
    "a3c": (("network.kind=conv-a3c",), GREY, discrete(3)),
    "students": (("network.kind=conv-students", "network.shared=false"), GREY, discrete(3)),
    "nature": (("network.kind=conv-nature",), GREY, NUMBERS),
    "impala": (("network.kind=conv-impala",), GREY, discrete(3)),
    "normalised pictures": (("network.kind=conv-a3c", "network.normalize=true"), GREY, discrete(3)),
    "normalised impala": (("network.kind=conv-impala", "network.normalize=true"), GREY, discrete(3)),
    "lstm": (("network.lstm=4", "network.hidden=[5]", "network.normalize=true"), BOX, NUMBERS),
    "masked": (("network.hidden=[5]", "network.normalize=true"), masked(BOX, discrete(3)), discrete(3)),
    "masked lstm": (("network.lstm=4", "network.hidden=[5]"), masked(STATES, discrete(3)), discrete(3)),
    "own": (("network.kind=tests.helpers.own_networks:Small",), BOX, NUMBERS),
}


@pytest.mark.parametrize("name", CASES)
def test_it_computes_the_same(name: str) -> None:
    assignments, observation, action = CASES[name]
    model = build(settings_of(*assignments), observation, action)
    generator = torch.Generator().manual_seed(1)
    model.flat.vector.add_(0.1 * torch.randn(model.size, generator=generator))
    if model.normalization.observations:
        model.statistics[:] = (torch.rand(model.statistics.size, generator=generator) + 0.5).numpy()
    if model.normalization.pixels:
        model.background[:] = some_background(observation.shape)
    plain = PlainNetwork(model, observation)
    state = torch.randn(4, model.state_size, generator=generator)
    for _ in range(2):
        if observation.kind == "box":
            x = 3 * torch.randn(4, *observation.shape, generator=generator)
            if observation.seen is not None:
                x = x.abs().floor().clamp(max=STATES.size - 1)  # whole numbers, some of them 0
        else:
            top = 256 if observation.kind == "pixels" else observation.size
            x = torch.randint(0, top, (4, *observation.shape), generator=generator)
        x = x.to(torch.uint8) if observation.kind == "pixels" else x
        outputs, after = model.network.step(x, state)
        with torch.no_grad():
            policy, value, plain_after = plain(x, state if model.state_size else None)
        largest = max(1.0, float(outputs[outputs != FORBIDDEN].abs().max()))
        found = torch.cat([policy, value.unsqueeze(1)], dim=1)
        torch.testing.assert_close(found, outputs, atol=1e-5 * largest, rtol=0)
        if model.state_size:
            torch.testing.assert_close(plain_after, after)
            state = after.clone()
        else:
            assert plain_after is None


def shapes(name: str) -> dict[str, tuple[int, ...]]:
    assignments, observation, action = CASES[name]
    network = PlainNetwork(build(settings_of(*assignments), observation, action), observation)
    return {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}


def test_parameters_have_the_names_and_shapes_of_pytorch() -> None:
    assert shapes("dense") == {
        "trunk.1.weight": (5, 6),
        "trunk.1.bias": (5,),
        "trunk.3.weight": (4, 5),
        "trunk.3.bias": (4,),
        "policy.weight": (3, 4),
        "policy.bias": (3,),
        "value.weight": (1, 4),
        "value.bias": (1,),
    }
    convolutions = shapes("a3c")
    assert convolutions["trunk.1.weight"] == (16, 4, 8, 8)
    assert convolutions["trunk.3.weight"] == (32, 16, 4, 4)
    assert convolutions["trunk.6.weight"] == (256, 32 * 4 * 4)
    assert shapes("lstm")["lstm.weight_ih"] == (16, 5)
    assert shapes("normalised")["normalize.mean"] == (2, 3)
    assert shapes("normalised pictures")["trunk.0.background"] == GREY.shape
    assert shapes("normalised")["log_std"] == (2,)
    assert {key.partition(".")[0] for key in shapes("students")} == {"policy_trunk", "value_trunk", "policy", "value"}
    assert set(shapes("own")) >= {"own.trunk.1.weight", "own.policy.weight", "log_std"}


@pytest.mark.parametrize("name", CASES)
def test_every_number_of_the_vector_has_a_name(name: str) -> None:
    assignments, observation, action = CASES[name]
    model = build(settings_of(*assignments), observation, action)
    layout = named_tensors(model)
    np.testing.assert_array_equal(to_vector(to_tensors(model.vector, layout), layout), model.vector)
    others = ("normalize.", "trunk.0.background", "trunk.0.scale")
    names = {key for key in shapes(name) if not key.startswith(others) and key != "lstm.bias_hh"}
    assert {one.name for one in layout} == names
    assert {one.name: one.shape for one in layout}.items() <= shapes(name).items()


def test_it_has_parameters_of_its_own() -> None:
    assignments, observation, action = CASES["dense"]
    model = build(settings_of(*assignments), observation, action)
    plain = PlainNetwork(model, observation)
    model.flat.vector.zero_()
    assert plain.policy.weight.abs().sum() > 0
