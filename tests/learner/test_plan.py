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
