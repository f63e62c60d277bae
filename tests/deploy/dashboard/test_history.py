import math

import pytest

from deploy.dashboard.history import COLUMNS, History, _number


def filled(rows: int, most: int = 1024) -> History:
    history = History(most)
    for second in range(rows):
        history.add({"seconds": second, "frames": 10 * second, "mean_return": second})
    return history


def test_few_rows_are_given_as_they_came() -> None:
    history = History()
    history.add({"seconds": 1.0, "frames": 10, "mean_return": None, "lag_mean": 2.5})
    history.add({"seconds": 2.0, "frames": 20, "mean_return": 7, "why": "no number"})
    assert history.sample("seconds", None, None, 100) == {
        "seconds": [1.0, 2.0],
        "frames": [10.0, 20.0],
        "mean_return": [None, 7.0],
        "lag_mean": [2.5, None],
    }


@pytest.mark.parametrize("row", [{}, {"seconds": 1.0}, {"frames": 1}, {"frames": math.nan, "seconds": 1.0}])
def test_a_row_of_no_known_place_is_left_out(row: dict[str, float]) -> None:
    history = History()
    history.add(row)
    assert (len(history), history.changes) == (0, 0)
    assert history.sample("seconds", None, None, 10) == {}


def test_a_run_that_goes_back_takes_what_was_beyond_with_it() -> None:
    history = filled(10)
    history.add({"seconds": 8.5, "frames": 45, "mean_return": 100})
    assert history.sample("frames", None, None, 100)["frames"] == [0, 10, 20, 30, 40, 45]


def test_of_two_rows_of_one_moment_the_later_stays() -> None:
    history = filled(3)
    history.add({"seconds": 2, "frames": 20, "mean_return": 9})
    assert history.sample("seconds", None, None, 10)["mean_return"] == [0, 1, 9]


def test_many_rows_are_means_of_stretches_that_stay_where_they_are() -> None:
    history = filled(1000)
    before = history.sample("seconds", None, None, 300)
    assert 150 <= len(before["seconds"]) <= 300
    assert before["mean_return"] == before["seconds"], "the mean of each stretch"
    history.add({"seconds": 1000, "frames": 10000, "mean_return": 1000})
    assert history.sample("seconds", None, None, 300)["seconds"][:-1] == before["seconds"][: len(before["seconds"])]


def test_a_part_has_its_own_points_and_one_beyond_either_end() -> None:
    part = filled(1000).sample("seconds", 100, 110, 300)["seconds"]
    assert part == list(range(99, 112))
    assert filled(10).sample("seconds", 100, 110, 300)["seconds"] == [9], "the last one, to draw a line from"


def test_memory_is_bounded_and_the_newest_rows_are_all_kept() -> None:
    history = filled(5000, most=1024)
    seconds = history.sample("seconds", None, None, 10**6)["seconds"]
    assert len(history) <= 1024
    assert seconds[0] == 0
    assert seconds[-200:] == list(range(4800, 5000))
    assert seconds == sorted(seconds)


def test_a_learner_that_names_figures_without_end_gets_some_columns() -> None:
    history = History()
    for second in (1.0, 2.0):
        history.add({f"loss_{number}": 1.0 for number in range(1000)} | {"seconds": second, "frames": 1})
    samples = history.sample("seconds", None, None, 10)
    assert (len(samples), samples["seconds"]) == (COLUMNS, [1.0, 2.0])


@pytest.mark.parametrize("over", ["nothing", "mean_return"])
def test_only_what_grows_is_an_axis(over: str) -> None:
    history = filled(3)
    history.add({"seconds": 9.0, "frames": 9, "mean_return": 1.0})
    assert history.sample(over, 1.0, None, 2) == {}


def test_a_whole_number_beyond_any_float_is_none() -> None:
    assert math.isnan(_number(10**400)) and _number(10**300) == 1e300


def test_a_stretch_without_a_number_has_none() -> None:
    history = History()
    for second in range(100):
        history.add({"seconds": second, "frames": second, "lag_mean": None if second < 50 else 1.0})
    lags = history.sample("seconds", None, None, 10)["lag_mean"]
    assert (lags[0], lags[-1]) == (None, 1.0)
