from __future__ import annotations

from typing import Any

import pytest

from common.settings.sections import Scaling
from learner.scaling.reach import unreachable


def told(longest: int, first_length: float | None = None, step_seconds: float = 0.0, **section: Any) -> str | None:
    scaling = Scaling(**({"policy": "episode-duration", "minimum": 2, "maximum": 8} | section))
    return unreachable(scaling, longest, first_length=first_length, step_seconds=step_seconds)


def test_seconds_that_the_longest_episode_does_not_last() -> None:
    assert told(500, step_seconds=1e-4, unit="seconds") == (
        "scaling.thresholds_seconds = 20, 40, 60 is never passed: an episode has at most 500 steps of 0.1 ms each; "
        'no actor is ever added. Use a lower value, or scaling.unit = "relative"'
    )
    text = told(500, step_seconds=0.05, unit="seconds")
    assert text is not None and text.startswith("scaling.thresholds_seconds = 60 is") and "would add" in text
    assert told(500, step_seconds=0.1, unit="seconds") is None
    text = told(500, step_seconds=1e-4, unit="seconds", form="linear")
    assert text is not None and text.startswith("scaling.first_seconds = 20 is never passed")


def test_multiples_of_episodes_that_cannot_get_so_much_longer() -> None:
    text = told(500, first_length=500.0)
    assert text is not None
    assert text.startswith("scaling.thresholds_relative = 2, 4, 6 is never passed: an episode has at most 500 steps, ")
    assert "the run's first ones 500; no actor is ever added" in text
    assert told(500, first_length=22.0) is None
    text = told(500, first_length=100.0)
    assert text is not None and "thresholds_relative = 6 is" in text
    assert told(3) is not None, "even if the first ones end at once"


@pytest.mark.parametrize("section", [{"policy": "load"}, {"policy": "fixed"}, {"maximum": 2}])
def test_where_no_threshold_counts_there_is_nothing_to_tell(section: dict[str, Any]) -> None:
    assert told(1, step_seconds=1e-6, **section) is None


def test_what_is_not_known_is_not_told() -> None:
    assert told(0, first_length=500.0, step_seconds=1e-6) is None
    assert told(500, unit="seconds") is None
    assert told(500) is None
