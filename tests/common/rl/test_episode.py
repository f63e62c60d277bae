"""An episode as three numbers."""

from __future__ import annotations

import msgspec
import pytest

from common.rl.episode import Episode


def test_it_travels_as_an_array_of_three_numbers() -> None:
    episode = Episode(2.5, 7, 0.25)
    assert msgspec.to_builtins(episode) == [2.5, 7, 0.25]
    assert msgspec.convert([2.5, 7, 0.25], Episode) == episode


@pytest.mark.parametrize("figures", [[1.0, 2], ["1", 2, 0.5], [1.0, 2.5, 0.5], {"episode_return": 1.0}])
def test_anything_else_is_refused(figures: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(figures, Episode)
