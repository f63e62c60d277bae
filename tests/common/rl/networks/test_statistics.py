"""Statistics of the extras, on the device of a network's passes."""

from types import SimpleNamespace

import pytest
import torch

from common.rl.networks.statistics import Statistics, on_device


def test_on_the_way_to_a_gpu_statistics_are_pinned_and_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, object]] = []
    pinned = SimpleNamespace(to=lambda device, non_blocking: asked.append((device, non_blocking)))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pinned)
    on_device(torch.zeros(2), torch.device("cuda:1"))
    assert asked == [(torch.device("cuda:1"), True)]
    assert on_device(torch.ones(2), torch.device("cpu")).tolist() == [1, 1]


def test_passes_elsewhere_have_those_of_the_last_renewal_at_the_same_place() -> None:
    statistics = Statistics(torch.zeros(2))
    statistics.there = there = statistics.there.clone()
    statistics.shared.fill_(3.0)
    assert there.tolist() == [0, 0]
    statistics.renew(torch.device("cpu"))
    assert statistics.there is there
    assert there.tolist() == [3, 3]
    statistics.renew(torch.device("meta"))
    assert statistics.there.is_meta
