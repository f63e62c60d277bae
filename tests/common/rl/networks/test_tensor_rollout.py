from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from common.rl import rollout as host
from common.rl.networks.tensor_rollout import TensorRollout, join
from tests.helpers.rollouts import BOX, COPIES, make, tensors


def of(rollout: host.Rollout) -> TensorRollout:
    parts: dict[str, Any] = vars(tensors(rollout))
    return TensorRollout(**parts)


def assert_equal(ours: TensorRollout, expected: host.Rollout) -> None:
    for field in dataclasses.fields(host.Rollout):
        found, wanted = getattr(ours, field.name), getattr(expected, field.name)
        assert (found is None) == (wanted is None)
        assert found is None or (found.numpy() == wanted).all()


def test_it_is_joined_and_cut_as_arrays_are() -> None:
    state = np.random.default_rng(0).normal(size=(2, COPIES, 4)).astype(np.float32)
    for states in (state, (None, None)):
        parts = [dataclasses.replace(make(BOX, seed)[1], state=states[seed]) for seed in range(2)]
        joined, expected = join([of(part) for part in parts]), host.join(parts)
        assert_equal(joined, expected)
        chosen = np.array([9, 0, 3])
        assert_equal(joined.columns(torch.from_numpy(chosen)), expected.columns(chosen))
    one = of(parts[0])
    assert join([one]) is one
    targets = np.random.default_rng(0).normal(size=parts[0].rewards.shape).astype(np.float32)
    assert_equal(one.apart(*2 * [torch.from_numpy(targets)]), parts[0].apart(targets, targets))  # type: ignore[list-item]


def test_its_environments_are_shared_out_in_order() -> None:
    state = np.arange(COPIES * 4, dtype=np.float32).reshape(COPIES, 4)
    expected = dataclasses.replace(make(BOX)[1], state=state)
    for devices, columns in ((1, [COPIES]), (3, [3, 2, 2]), (COPIES + 2, [1] * COPIES)):
        shards = of(expected).shared_out([torch.device("cpu")] * devices)
        assert [shard.rewards.shape[1] for shard in shards] == columns
        assert_equal(join(shards), expected)
