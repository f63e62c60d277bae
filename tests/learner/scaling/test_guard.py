from dataclasses import replace

from common.settings.sections import Scaling
from learner.scaling.guard import guard, overload
from learner.scaling.measure import Decision, Measurement

SECTION = Scaling(minimum=2, maximum=10)
CALM = Measurement(
    actors=4,
    wanted=4,
    episodes=0,
    mean_episode_seconds=None,
    learner_busy=0.8,
    lag_mean=3.0,
    gradients_per_second=10.0,
    steps_per_second=10.0,
)
MORE = Decision(5, "because: 4 -> 5 actors")


def test_a_learner_with_room_gets_its_actors() -> None:
    assert overload(SECTION, CALM) is None
    assert guard(SECTION, CALM, MORE) is MORE


def test_a_busy_learner_gets_no_more() -> None:
    decision = guard(SECTION, replace(CALM, learner_busy=0.91), MORE)
    assert decision == Decision(4, "held at 4 actors: learner busy 91% > 80%; else because: 4 -> 5 actors", held=True)


def test_old_gradients_mean_no_more() -> None:
    decision = guard(SECTION, replace(CALM, lag_mean=7.0), MORE)
    assert decision.wanted == 4
    assert "gradients 1.8 > 1.5 rollouts old (lag 7.0)" in decision.why


def test_fewer_or_as_many_always_pass() -> None:
    busy = replace(CALM, learner_busy=1.0)
    for proposed in (Decision(3, "fewer"), Decision(4, "as many")):
        assert guard(SECTION, busy, proposed) is proposed
