from common.settings.sections import Scaling
from learner.scaling.experience import LONGEST_RETRY, PATIENCE, RETRY_SECONDS, Experience
from tests.helpers.measurements import measured

LOAD = Scaling(policy="load", minimum=1, maximum=40)
GROWING = Scaling(policy="episode-duration", minimum=1, maximum=40)


def frames(per_second: float, samples: int = 6) -> tuple[float, ...]:
    return (per_second,) * samples


def full_host(section: Scaling) -> Experience:
    """Four actors play as much as two."""
    experience = Experience(section)
    experience.look(0.0, measured(actors=2, frames_per_second=frames(1000.0)))
    experience.look(10.0, measured(actors=4, frames_per_second=frames(1020.0)))
    return experience


def test_actors_that_bring_no_frames_are_taken_back_or_followed_by_no_others() -> None:
    back, stay = full_host(LOAD).limit, full_host(GROWING).limit
    assert back is not None and stay is not None
    assert (back.most, stay.most) == (2, 4)
    assert back.why == "4 actors play 1,020 frames/s, 2 played 1,000"


def test_one_is_kept_to_measure_with_though_the_host_is_full_of_actors_started_by_hand() -> None:
    experience = Experience(Scaling(policy="load", minimum=0, maximum=40))
    experience.look(0.0, measured(actors=1, by_hand=1, wanted=0, frames_per_second=frames(1000.0)))
    experience.look(10.0, measured(actors=2, by_hand=1, wanted=1, frames_per_second=frames(1000.0)))
    assert experience.limit is not None and experience.limit.most == 1


def test_as_many_are_kept_as_would_bring_what_is_played() -> None:
    experience = Experience(LOAD)
    experience.look(0.0, measured(actors=13, frames_per_second=frames(528.0)))
    experience.look(10.0, measured(actors=40, frames_per_second=frames(701.0)))
    assert experience.limit is not None and experience.limit.most == 17


def test_actors_that_bring_frames_are_what_the_next_ones_are_compared_with() -> None:
    experience = Experience(GROWING)
    for actors in (2, 3, 4):
        experience.look(0.0, measured(actors=actors, frames_per_second=frames(1000.0 * actors)))
        assert experience.limit is None
    experience.look(0.0, measured(actors=6, frames_per_second=frames(4000.0)))
    assert experience.limit is not None
    assert experience.limit.why == "6 actors play 4,000 frames/s, 4 played 4,000"


def test_what_cannot_be_told_is_waited_for_and_then_compared_with_the_same_once_more() -> None:
    experience = Experience(GROWING)
    experience.look(0.0, measured(actors=20, frames_per_second=frames(1000.0)))
    unsure = measured(actors=21, frames_per_second=frames(1000.0))
    experience.look(1.0, unsure)
    assert experience.pending(unsure) == "measuring what 21 actors bring, 20 played 1,000 frames/s"
    patient = measured(actors=21, frames_per_second=frames(1000.0, PATIENCE))
    experience.look(20.0, patient)
    assert (experience.pending(patient), experience.limit) == (None, None)
    experience.look(99.0, measured(actors=28, frames_per_second=frames(1000.0)))
    assert experience.limit is not None and "20 played 1,000" in experience.limit.why


def test_a_limit_ends_after_a_while_and_later_each_time() -> None:
    experience = full_host(LOAD)
    now, waited = 10.0, RETRY_SECONDS
    for _ in range(6):
        experience.look(now + waited - 1.0, measured(actors=2, frames_per_second=frames(1000.0)))
        assert experience.limit is not None
        now += waited
        experience.look(now, measured(actors=2, frames_per_second=frames(1000.0)))
        assert experience.limit is None
        experience.look(now, measured(actors=4, frames_per_second=frames(1000.0)))
        assert experience.limit is not None
        waited = min(2 * waited, LONGEST_RETRY)


def test_a_limit_ends_when_a_launcher_or_an_actor_started_by_hand_comes() -> None:
    for change in ({"launchers": 2}, {"by_hand": 1, "actors": 3, "wanted": 2}):
        experience = full_host(LOAD)
        experience.look(20.0, measured(**({"actors": 2, "frames_per_second": frames(1000.0)} | change)))
        assert experience.limit is None


def test_a_measurement_too_short_teaches_nothing() -> None:
    experience = full_host(LOAD)
    experience.look(1e9, measured(actors=2, seconds=0.0, frames_per_second=()))
    assert experience.good == 4


def test_gradients_that_fewer_actors_make_no_younger_are_not_old_for_their_number() -> None:
    experience = Experience(LOAD)
    old = measured(actors=20, lag_mean=80.0)
    experience.look(0.0, old)
    assert experience.overload(old) == "gradients 4.0 > 1.5 rollouts old (lag 80.0)"
    experience.too_many(0.0, old, "old")
    assert experience.limit is not None and experience.limit.most == 19
    still = measured(actors=15, lag_mean=60.0)
    experience.look(10.0, still)
    assert experience.overload(still) is not None, "it may take fewer yet"
    experience.too_many(10.0, still, "old")
    as_old = measured(actors=10, lag_mean=40.0)
    experience.look(20.0, as_old)
    assert (experience.overload(as_old), experience.limit) == (None, None)
    assert experience.overload(measured(learner_busy=0.9)) is not None, "a busy learner is another matter"


def test_gradients_that_grew_younger_were_old_for_the_number_of_actors() -> None:
    experience = Experience(LOAD)
    experience.too_many(0.0, measured(actors=20, lag_mean=60.0), "old")
    younger = measured(actors=15, lag_mean=30.0)
    experience.look(10.0, younger)
    assert experience.overload(younger) is not None
    assert experience.limit is not None
