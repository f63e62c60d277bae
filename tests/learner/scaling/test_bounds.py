from __future__ import annotations

import msgspec
import pytest

from learner.scaling.bounds import Bounds, kept, refusal, written
from learner.scaling.measure import Decision
from tests.helpers.run import settings_of

FIXED = settings_of("scaling.minimum=4").scaling
BY_LOAD = settings_of("scaling.policy=load", "scaling.minimum=2", "scaling.maximum=8").scaling


def bounds_of(minimum: int, maximum: int, section: object = BY_LOAD) -> Bounds:
    return Bounds(minimum=minimum, maximum=maximum, by="boss/1", instead_of=written(section))  # type: ignore[arg-type]


def test_they_are_put_in_the_place_of_those_in_the_settings() -> None:
    section = bounds_of(3, 5).put_into(BY_LOAD)
    assert (section.policy, section.minimum, section.maximum) == ("load", 3, 5)


def test_a_decision_says_whose_they_are() -> None:
    decision = bounds_of(3, 5).decision(Decision(4, "learner busy 10%: 4 actors", "load"))
    assert decision == Decision(4, "learner busy 10%: 4 actors (3 to 5 as operator boss/1 said)", "load")
    assert bounds_of(3, 3).decision(Decision(4, "whatever")) == Decision(3, "as operator boss/1 said: 3 actors")


def test_they_are_kept_until_the_settings_say_something_else() -> None:
    bounds = bounds_of(3, 5)
    assert kept(msgspec.json.decode(msgspec.json.encode(bounds), type=Bounds), BY_LOAD) == bounds
    assert kept(bounds, msgspec.structs.replace(BY_LOAD, maximum=9)) is None
    assert kept(bounds, msgspec.structs.replace(BY_LOAD, policy="episode-duration")) is None
    assert kept(bounds, msgspec.structs.replace(BY_LOAD, busy_limit=0.5)) == bounds
    assert kept(None, BY_LOAD) is None


@pytest.mark.parametrize(
    ("section", "minimum", "maximum", "why"),
    [
        (FIXED, 3, 3, ""),
        (FIXED, 0, 0, ""),
        (FIXED, 2, 3, 'scaling.policy = "fixed" has one number of actors, not 2 to 3'),
        (BY_LOAD, 0, 9, ""),
        (BY_LOAD, 3, 2, "the minimum 3 is above the maximum 2"),
    ],
)
def test_what_a_run_does_not_take_is_named(section: object, minimum: int, maximum: int, why: str) -> None:
    found = refusal(section, minimum, maximum)  # type: ignore[arg-type]
    assert found.startswith(why) and bool(found) == bool(why)
