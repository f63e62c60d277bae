from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import ConfigurationError
from learner.parameters.delay_compensation import MIB, DelayCompensation
from tests.helpers.examples import examples


@settings(max_examples=examples(50))
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 40),
    steps=st.integers(0, 12),
    strength=st.sampled_from([0.04, 1.0, 3.5]),
    data=st.data(),
)
def test_it_is_the_paper_s_sum_element_by_element(
    seed: int, size: int, steps: int, strength: float, data: st.DataObject
) -> None:
    random = np.random.default_rng(seed)
    versions = random.standard_normal((steps + 1, size)).astype(np.float32)
    compensation = DelayCompensation(torch.from_numpy(versions[0].copy()), strength, 1)
    for version in versions[1:]:
        compensation.stepped(torch.from_numpy(version))
    lag = data.draw(st.integers(0, compensation.reach))
    g = random.standard_normal(size).astype(np.float32)
    compensated = torch.from_numpy(g.copy())
    compensation.apply(compensated, lag)
    now, then = versions[-1], versions[-1 - lag]
    for one in range(size):
        expected = float(g[one]) + strength * float(g[one]) ** 2 * (float(now[one]) - float(then[one]))
        assert float(compensated[one]) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_the_newest_weights_are_kept_by_value() -> None:
    weights = torch.zeros(3)
    compensation = DelayCompensation(weights, 1.0, 1)
    weights += 2.0
    compensation.stepped(weights)
    weights += 100.0
    gradient = torch.tensor([1.0, 2.0, -1.0])
    compensation.apply(gradient, 1)
    assert gradient.tolist() == [1.0 + 2.0, 2.0 + 8.0, -1.0 + 2.0]


def test_memory_bounds_how_far_it_reaches_and_the_oldest_goes_first() -> None:
    size = MIB // 16
    compensation = DelayCompensation(torch.zeros(size), 1.0, 1)
    reaches = []
    for version in range(1, 8):
        compensation.stepped(torch.full((size,), float(version)))
        reaches.append(compensation.reach)
    assert reaches == [1, 2, 3, 3, 3, 3, 3]
    gradient = torch.ones(size)
    compensation.apply(gradient, 3)
    assert torch.equal(gradient, torch.full((size,), 4.0))


def test_memory_for_less_than_two_versions_is_refused_with_what_is_needed() -> None:
    with pytest.raises(ConfigurationError, match=r"history_mib = 1 does not hold two versions of 131,073 .* 2 or more"):
        DelayCompensation(torch.zeros(MIB // 8 + 1), 1.0, 1)
    assert DelayCompensation(torch.zeros(MIB // 8), 1.0, 1).reach == 0


def test_weights_that_no_step_led_to_begin_anew() -> None:
    weights = torch.zeros(3)
    compensation = DelayCompensation(weights, 1.0, 1)
    compensation.stepped(weights + 1)
    compensation.begin(weights + 9)
    assert compensation.reach == 0
    compensation.stepped(weights + 10)
    gradient = torch.ones(3)
    compensation.apply(gradient, 1)
    assert gradient.tolist() == [2.0] * 3
