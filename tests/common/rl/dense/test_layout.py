"""One definition for both: the learner's network in torch has these parameters, in this order."""

from __future__ import annotations

import pytest

from common.settings.sections import Network
from tests.common.rl.dense.test_network import ACTIONS, BOX, OBSERVATIONS, Pair


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_names_shapes_and_architecture_are_the_learner_s(observation: str, action: str, shared: bool) -> None:
    section = Network(kind="dense", hidden=[8, 5], shared=shared, log_std=ACTIONS[action].log_std)
    pair = Pair(OBSERVATIONS[observation], ACTIONS[action], section)
    assert (pair.layout.architecture, pair.layout.parameters) == (pair.flat.architecture, pair.flat.layout)


def test_a_normalised_one_s_too() -> None:
    pair = Pair(BOX, ACTIONS["log-stds"], Network(kind="dense", hidden=[8], normalize=True))
    assert (pair.layout.architecture, pair.layout.parameters) == (pair.flat.architecture, pair.flat.layout)
