from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from common.errors import EnvironmentMissingError, UnavailableError
from common.rl.action_masks import split
from common.rl.environments.frames import Camera
from common.rl.environments.sequential import SequentialEnvironments
from common.rl.environments.wrappers import PacedEnvironments
from tests.helpers.guarded import ACTIONS, STEPS, Blind, Guarded


def batch(name: str, copies: int = 2, *, limit: int = 0, **options: Any) -> SequentialEnvironments:
    made = [
        gymnasium.make(f"broken_environments:{name}-v0", disable_env_checker=True, **options) for _ in range(copies)
    ]
    return SequentialEnvironments(made, name=name, seed=4, limit=limit)


def test_each_copy_ends_and_begins_by_itself() -> None:
    short = gymnasium.make("broken_environments:Counter-v0", length=2)
    long = gymnasium.make("broken_environments:Counter-v0", length=4)
    environments = SequentialEnvironments([short, long], name="Counter", seed=0)
    environments.reset()
    elapsed, ended, rewards = [], [], []
    for _ in range(7):
        step = environments.step(np.array([0, 1]))
        elapsed.append(step.observations[:, 1].tolist())
        ended.append(step.terminated.tolist())
        rewards.append(step.rewards.tolist())
        assert not step.truncated.any()
    assert elapsed == [[1, 1], [2, 2], [0, 3], [1, 4], [2, 0], [0, 1], [1, 2]]
    assert ended == [
        [False, False], [True, False], [False, False], [False, True], [True, False], [False, False], [False, False]
    ]  # fmt: skip
    assert rewards == [[1, 2], [1, 2], [0, 2], [1, 2], [1, 0], [0, 2], [1, 2]]


def test_a_limit_truncates_and_a_termination_at_the_limit_is_both() -> None:
    environments = batch("Counter", limit=3, length=4)
    environments.reset()
    steps = [environments.step(np.zeros(2, np.int64)).truncated.tolist() for _ in range(8)]
    assert [any(step) for step in steps] == [False, False, True, False, False, False, True, False]

    environments = batch("Counter", limit=3, length=3)
    environments.reset()
    for _ in range(3):
        step = environments.step(np.zeros(2, np.int64))
    assert step.terminated.all()
    assert step.truncated.all()


def test_reset_in_mid_episode_starts_all_anew() -> None:
    environments = batch("Counter", limit=3, length=9)
    environments.reset()
    for _ in range(3):
        step = environments.step(np.zeros(2, np.int64))
    assert step.truncated.all()
    assert environments.reset()[:, 1].tolist() == [0, 0]
    step = environments.step(np.zeros(2, np.int64))
    assert step.rewards.tolist() == [1, 1]
    assert not step.truncated.any()


def test_actions_and_observations_count_from_zero() -> None:
    environments = batch("Grid", 4)
    assert environments.action.width == 4
    assert environments.reset().tolist() == [0, 0, 0, 0]
    assert environments.step(np.arange(4)).observations.tolist() == [0, 4, 0, 1]


def test_not_a_number_is_passed_on() -> None:
    environments = batch("NanReward", length=1)
    environments.reset()
    assert np.isnan(environments.step(np.zeros(2, np.int64)).rewards).all()


class ShowsElapsed(Camera):
    def picture(self, environment: gymnasium.Env[Any, Any]) -> NDArray[np.uint8]:
        game: Any = environment.unwrapped
        return np.full(self.space.shape, 10 + game.elapsed, np.uint8)


def test_a_camera_replaces_the_observation() -> None:
    made = [gymnasium.make("broken_environments:Counter-v0", length=2)]
    environments = SequentialEnvironments(made, name="Counter", seed=0, camera=ShowsElapsed(20))
    assert environments.observation.shape == (1, 20, 20)
    values = [environments.reset().max()]
    values += [environments.step(np.zeros(1, np.int64)).observations.max() for _ in range(3)]
    assert values == [10, 11, 12, 10]


def test_errors_of_the_environment_name_it() -> None:
    environments = batch("RaisesMidEpisode", every=3)
    environments.reset()
    environments.step(np.zeros(2, np.int64))
    environments.step(np.zeros(2, np.int64))
    with pytest.raises(UnavailableError, match="RaisesMidEpisode failed in step: RuntimeError: the emulator is gone"):
        environments.step(np.zeros(2, np.int64))
    with pytest.raises(UnavailableError, match="RaisesAtReset failed in reset: RuntimeError: no level to load"):
        batch("RaisesAtReset").reset()


@pytest.mark.parametrize(("name", "given", "told"), [("Grid", 26, "26, which is none of"), ("Counter", [1.0], "shape")])
def test_an_observation_that_is_none_of_the_space_names_both(
    name: str, given: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a reset as in a step; when it gives proper ones again, it is played again."""
    environments = batch(name)
    kind: Any = type(environments._environments[0].unwrapped)
    act = np.zeros(2, np.int64)
    environments.reset()
    with monkeypatch.context() as patched:
        patched.setattr(kind, "observe", lambda _: given)
        for play in (lambda: environments.step(act), environments.reset):
            with pytest.raises(UnavailableError, match=f"environment {name} gave .*{told}"):
                play()
    environments.reset()
    environments.step(act)


@pytest.mark.parametrize(("name", "space"), [("OddSpace", "Tuple"), ("OddObservation", "Sequence")])
def test_unsupported_spaces_are_refused(name: str, space: str) -> None:
    with pytest.raises(EnvironmentMissingError, match=space):
        batch(name)


def test_renders_the_first_copy_and_closes_all() -> None:
    closed = []

    class Drawn(gymnasium.Wrapper[Any, Any, Any, Any]):
        def __init__(self, number: int) -> None:
            super().__init__(gymnasium.make("broken_environments:Counter-v0"))
            self.number = number

        def render(self) -> Any:
            return np.full((2, 3, 3), self.number, np.uint8)

        def close(self) -> None:
            closed.append(self.number)

    environments = SequentialEnvironments([Drawn(0), Drawn(1)], name="Drawn", seed=0)
    assert environments.render().tolist() == np.zeros((2, 3, 3)).tolist()
    environments.close()
    assert closed == [0, 1]


def test_an_environment_that_cannot_be_closed_is_told_of_and_keeps_nobody(caplog: pytest.LogCaptureFixture) -> None:
    closed = []

    class Windowed(gymnasium.Wrapper[Any, Any, Any, Any]):
        def close(self) -> None:
            closed.append(self)
            raise AttributeError("'NoneType' object has no attribute 'close'")

    made = [Windowed(gymnasium.make("broken_environments:Counter-v0")) for _ in range(2)]
    SequentialEnvironments(made, name="Windowed", seed=0).close()
    assert closed == made
    told = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert told == ["environment Windowed failed in close: AttributeError: 'NoneType' object has no attribute 'close'"]


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("pairs", [True, False])
def test_observations_end_with_what_is_allowed(numbers: bool, pairs: bool) -> None:
    """Of each copy, over the ends of episodes, where nothing is."""
    environments = SequentialEnvironments(
        [Guarded(numbers=numbers, pairs=pairs) for _ in range(2)], name="Guarded", seed=4, masks=True
    )
    seen = environments.observation.seen
    assert seen is not None
    assert (seen.kind, environments.observation.kind) == ("box" if numbers else "discrete", "box")
    observations = environments.reset()
    for t in range(3 * (STEPS + 1)):
        shown, allowed = split(seen, observations)
        room = shown[:, 0].argmax(axis=1) if numbers else shown
        doors = allowed[:, -ACTIONS:]
        ended = t % (STEPS + 1) == STEPS
        assert (np.count_nonzero(doors, axis=1) == (ACTIONS if ended else 2)).all()
        assert doors[[0, 1], room].all()
        first = allowed[:, :2].argmax(axis=1)
        step = environments.step(np.stack([first, room], axis=1) if pairs else room)
        assert step.rewards.tolist() == [0, 0] if ended else [1, 1]
        observations = step.observations


def test_an_environment_without_masks_is_refused_at_once() -> None:
    with pytest.raises(EnvironmentMissingError, match=r'info has no "action_mask" after its reset; leave that setting'):
        SequentialEnvironments([gymnasium.make("CartPole-v1")], name="CartPole-v1", seed=0, masks=True)


@pytest.mark.parametrize(("mask", "kind"), [(None, EnvironmentMissingError), ([0, 0, 0], UnavailableError)])
def test_one_whose_masks_end_is_told_by_its_name(mask: Any, kind: type[Exception]) -> None:
    environments = SequentialEnvironments([Blind(mask=mask)], name="Blind", seed=0, masks=True)
    assert environments.reset().tolist() == [[0, 0, 1, 1, 1]]
    with pytest.raises(kind, match=r"environment Blind: .*after its step"):
        environments.step(np.zeros(1, np.int64))


@pytest.mark.parametrize(("asked", "unused"), [(True, False), (False, True)])
def test_masks_that_nobody_asked_for_are_noted(asked: bool, unused: bool) -> None:
    environments = SequentialEnvironments([Guarded()], name="Guarded", seed=0, masks=asked)
    assert not environments.masks_unused
    environments.reset()
    assert environments.masks_unused == unused
    assert PacedEnvironments(environments, 0.0).masks_unused == unused


def test_one_that_fails_at_its_reset_says_so_when_it_is_played() -> None:
    made = [gymnasium.make("broken_environments:RaisesAtReset-v0", disable_env_checker=True)]
    environments = SequentialEnvironments(made, name="RaisesAtReset", seed=0, masks=True)
    with pytest.raises(UnavailableError, match="RaisesAtReset failed in reset"):
        environments.reset()
