from __future__ import annotations

import pytest
import torch
from torch.autograd.graph import get_gradient_edge

from common.rl.networks import chunks
from common.rl.networks.chunks import Chunks, graph_bytes
from common.rl.observation_spec import ObservationSpec
from tests.helpers.rollouts import BOX, PICTURE, make

CPU, OTHER = torch.device("cpu"), torch.device("meta")


@pytest.mark.parametrize(
    ("rows", "size", "kept"),
    [
        (1, 1, True),
        (80, 80, True),
        (256, 256, True),
        (400, 200, True),
        (1536, 192, True),
        (3072, 192, True),
        (3200, 189, False),
    ],
)
def test_a_cpu_computes_equal_parts(rows: int, size: int, kept: bool) -> None:
    model, _ = make(PICTURE)
    assert Chunks(model.network, CPU).of(torch.empty(rows, 1)) == (size, kept)


def test_another_device_as_much_as_its_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rollout = make(PICTURE)
    observations = torch.from_numpy(rollout.observations).flatten(0, 1)
    monkeypatch.setattr(chunks, "OTHER_DEVICE_BYTES", int(20.5 * graph_bytes(model.network, observations)))
    policy = Chunks(model.network, OTHER)
    assert policy.of(observations) == (10, False), "half of it, and there are 49"
    assert policy.of(observations[:10]) == (10, True)
    assert policy.of(observations[:3]) == (3, True)


def test_after_a_pass_without_enough_memory_the_next_are_of_half_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rollout = make(PICTURE)
    observations = torch.from_numpy(rollout.observations).flatten(0, 1)
    monkeypatch.setattr(chunks, "OTHER_DEVICE_BYTES", int(1000 * graph_bytes(model.network, observations)))
    policy = Chunks(model.network, OTHER)
    assert policy.of(observations) == (49, True), "far fewer than it thought there was memory for"
    for size in (24, 12, 6, 3, 1):
        assert (policy.halve(), policy.of(observations)) == (size, (size, False))
    assert policy.halve() == 0


def test_the_size_shrinks_to_nothing_though_every_attempt_fails_before_it_asks_for_it() -> None:
    model, rollout = make(BOX)
    policy = Chunks(model.network, OTHER)
    policy.of(torch.from_numpy(rollout.observations).flatten(0, 1)[:5])
    assert [policy.halve() for _ in range(4)] == [2, 1, 0, 0]


def test_the_graph_s_memory_is_that_of_what_is_kept_for_the_way_back() -> None:
    picture, rollout = make(PICTURE)
    pictures = torch.from_numpy(rollout.observations).flatten(0, 1)
    found = graph_bytes(picture.network, pictures)
    assert 36 * 36 * 2 * 4 < found < 100_000, "at least the picture as float32"
    assert found == pytest.approx(graph_bytes(picture.network, pictures[:2]), rel=0.2)
    with torch.no_grad():  # as of a target network
        assert graph_bytes(picture.network, pictures) == found
    dense, rollout = make(BOX)
    assert graph_bytes(dense.network, torch.from_numpy(rollout.observations).flatten(0, 1)) < 10_000


def nodes_live(parameters: list[torch.nn.Parameter]) -> list[bool]:
    """Tells for each parameter whether a graph has its node: otherwise every look at it makes a new one."""
    for parameter in parameters:
        get_gradient_edge(parameter).node.metadata["seen"] = True
    return ["seen" in get_gradient_edge(parameter).node.metadata for parameter in parameters]


@pytest.mark.parametrize("observation", [BOX, PICTURE])
def test_the_graph_whose_memory_was_measured_is_gone_afterwards(observation: ObservationSpec) -> None:
    model, rollout = make(observation)
    graph_bytes(model.network, torch.from_numpy(rollout.observations).flatten(0, 1))
    parameters = list(model.network.parameters())
    assert not any(nodes_live(parameters))
    graph = sum(parameter.sum() for parameter in parameters)
    assert all(nodes_live(parameters))
    assert graph is not None
