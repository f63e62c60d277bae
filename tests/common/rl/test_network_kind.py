"""What `auto` stands for."""

from __future__ import annotations

import pytest

from common.rl.network_kind import resolve
from common.rl.observation_spec import ObservationSpec

BOX = ObservationSpec((4,), "box", 4)
DISCRETE = ObservationSpec((), "discrete", 16)
PICTURE = ObservationSpec((4, 44, 44), "pixels", 4 * 44 * 44)
RAM = ObservationSpec((128,), "pixels", 128)


@pytest.mark.parametrize(
    ("observation", "kind"), [(BOX, "dense"), (DISCRETE, "dense"), (RAM, "dense"), (PICTURE, "conv-a3c")]
)
def test_auto(observation: ObservationSpec, kind: str) -> None:
    assert resolve("auto", observation) == kind
    assert resolve("conv-students", observation) == "conv-students"
    assert resolve("tests.helpers.own_networks:Small", observation) == "tests.helpers.own_networks:Small"
