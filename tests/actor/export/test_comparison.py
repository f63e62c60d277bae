from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actor.agent.trained_agent import TrainedRun, open_run
from actor.export import formats
from actor.export.comparison import OBSERVATIONS, compare
from actor.export.formats import Computed
from actor.export.policy import policy_of
from common.errors import ConfigurationError
from tests.helpers.guarded import ID

MakeRun = Callable[..., Path]


MASKED = (f"environment.id={ID}", "environment.action_masks=true", "algorithm.kind=n-step-q", "network.hidden=[8]")


def computed(run: TrainedRun) -> Computed:
    return formats.safetensors(policy_of(run, "mine"))[1]


@pytest.mark.parametrize(
    "assignments",
    [
        (),
        ("network.lstm=8", "network.hidden=[8]"),
        ("environment.id=Pendulum-v1", "environment.action_bounds=tanh", "environment.frame_stack=2"),
        ("environment.id=FrozenLake-v1", "algorithm.kind=n-step-q"),
        ("environment.id=Blackjack-v1",),
        MASKED,
    ],
)
def test_the_same_policy_does_the_same(assignments: tuple[str, ...], trained_run: MakeRun) -> None:
    run = open_run(trained_run(*assignments, random=True), "best")
    found = compare(run, computed(run))
    assert found.observations >= OBSERVATIONS
    assert found.ties == 0
    assert found.difference < 1e-4


@pytest.mark.parametrize("which", range(3))
def test_another_action_policy_or_value_is_found(which: int, trained_run: MakeRun) -> None:
    run = open_run(trained_run(random=True), "best")
    genuine = computed(run)

    def changed(*inputs: Any) -> list[Any]:
        found = genuine(*inputs)
        found[which] = 1 - found[which] if which == 0 else found[which] + 0.01
        return found

    with pytest.raises(ConfigurationError, match=r"differs from the agent.*nothing was written"):
        compare(run, changed)


def test_one_that_does_not_heed_the_mask_is_found(trained_run: MakeRun) -> None:
    """Though what is said of forbidden actions is far beyond all else that is said."""
    run = open_run(trained_run(*MASKED, random=True), "best")
    genuine = computed(run)
    for changed in (1, 2):

        def other(*inputs: Any, changed: int = changed) -> list[Any]:
            found = genuine(*inputs)
            found[changed] = np.maximum(found[changed], -5.0) if changed == 1 else found[changed] + 0.01
            return found

        with pytest.raises(ConfigurationError, match="differs from the agent"):
            compare(run, other)


def test_a_recurrent_one_must_carry_its_state(trained_run: MakeRun) -> None:
    run = open_run(trained_run("network.lstm=8", random=True), "best")
    genuine = computed(run)

    def forgetful(observations: Any, state: Any) -> list[Any]:
        return genuine(observations, np.zeros_like(state))

    with pytest.raises(ConfigurationError, match="differs from the agent"):
        compare(run, forgetful)


def test_actions_that_are_as_good_are_ties(trained_run: MakeRun) -> None:
    run = open_run(trained_run(), "best")
    genuine = computed(run)

    def other(*inputs: Any) -> list[Any]:
        action, policy, value = genuine(*inputs)
        return [1 - action, policy[:, ::-1], value]

    with pytest.raises(ConfigurationError, match="differs"):
        compare(run, other)
    run.checkpoint.weights[:] = 0
    found = compare(run, lambda *inputs: [*_tied(computed(run)(*inputs))])
    assert found.ties == found.observations


def _tied(found: list[Any]) -> list[Any]:
    action, policy, value = found
    policy = policy.copy()
    policy[:, 1] += 1e-6
    return [np.ones_like(action), policy, value]


def test_one_that_fails(trained_run: MakeRun) -> None:
    run = open_run(trained_run(), "best")

    def fails(*inputs: Any) -> list[Any]:
        raise RuntimeError("invalid dimensions")

    with pytest.raises(ConfigurationError, match="the exported policy fails: RuntimeError: invalid dimensions"):
        compare(run, fails)
