from common.rl.environments.timing import step_seconds
from common.settings.sections import Environment
from tests.helpers.guarded import FORBIDDEN, ID


def test_a_step_takes_some_time_and_at_least_its_pace() -> None:
    assert 0.0 < step_seconds(Environment(id="CartPole-v1", num_envs=4), 0) < 5.0
    assert step_seconds(Environment(id="CartPole-v1", num_envs=2, step_seconds=0.03), 0) >= 0.03


def test_numbers_and_pictures_can_be_stepped_too() -> None:
    assert step_seconds(Environment(id="Pendulum-v1", num_envs=2), 0) > 0.0


def test_only_what_is_allowed_is_done() -> None:
    FORBIDDEN.clear()
    for options in ({}, {"pairs": True}):
        assert step_seconds(Environment(id=ID, num_envs=3, action_masks=True, options=options), 0) > 0.0
    assert FORBIDDEN == []
