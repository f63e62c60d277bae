from __future__ import annotations

import pytest

from actor.trips import Trips
from tests.learner.test_choice import SMALL


def test_the_shortest_of_each_counts() -> None:
    trips = Trips()
    trips.beaten(1.0)  # an answer to nothing
    assert not trips.known
    trips.beat(10.0)
    trips.beaten(10.5)
    trips.beat(12.0)
    trips.beaten(12.25)
    for seconds in (3.0, 1.0, 2.0):
        trips.answered(seconds)
    assert trips.known
    trial = trips.added_to(SMALL)
    assert (trial.round_trip, trial.latency, trial.play) == (1.0, 0.25, SMALL.play)


@pytest.mark.parametrize("beats", [(), (7.0,)])
def test_the_latency_is_never_longer_than_a_round_trip(beats: tuple[float, ...]) -> None:
    trips = Trips()
    for beat in beats:
        trips.beat(0.0)
        trips.beaten(beat)
    trips.answered(1.0)
    assert trips.added_to(SMALL).latency == 1.0
