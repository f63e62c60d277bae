from learner.scaling.first_episodes import FirstEpisodes


def test_the_mean_is_known_once_there_are_enough() -> None:
    first = FirstEpisodes(3)
    assert [first.add(length) for length in (10, 20, 60)] == [None, None, 30.0]


def test_episodes_without_steps_are_no_measure() -> None:
    first = FirstEpisodes(2)
    assert [first.add(length) for length in (0, 0, 3)] == [None, None, 1.0]
