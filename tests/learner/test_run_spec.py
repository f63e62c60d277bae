import dataclasses

import msgspec
import pytest

from common.settings.sections import Settings
from tests.helpers.run import plan_of, settings_of


def test_the_settings_an_actor_is_sent_are_the_run_s() -> None:
    plan = plan_of(settings_of("seed=5", "environment.options.difficulty=1"))
    assert msgspec.convert(plan.plain, Settings) == plan.settings


def test_a_plan_stays_the_same() -> None:
    plan = plan_of(Settings())
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.epoch = 2  # type: ignore[misc]


def test_actors_of_neighbouring_runs_share_no_seed() -> None:
    plans = [plan_of(settings_of(f"seed={seed}")) for seed in range(3)]
    assert len({plan.actor_seed(ordinal) for plan in plans for ordinal in range(1000)}) == 3000
