from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import actor.players.environments
from actor.players.environments import Remote, unstacking
from common.errors import UnavailableError
from common.rl.action_spec import discrete
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Environment
from common.wire.bodies.observations import ObservationCodec, StepBatch
from common.wire.messages import Act, Observe
from tests.helpers.environments import Scripted
from tests.helpers.run import settings_of, welcome_of

LENGTHS = (3, 5)
BODIES = ObservationCodec(ObservationSpec((2,), "box", 2), discrete(3), len(LENGTHS))
ACTIONS = bytes([2, 1])


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Scripted]]:
    """The environments of each group, once a player is made."""
    made: list[Scripted] = []

    def make(section: Environment, *, num_envs: int, seed: int) -> Scripted:
        assert num_envs == len(LENGTHS)
        made.append(Scripted(LENGTHS, rewards=(1.0, 2.0), cut=(1,)))
        return made[-1]

    monkeypatch.setattr(actor.players.environments, "make_environments", make)
    yield made
    assert all(environments.closed for environments in made)


@pytest.fixture
def remote(scripted: list[Scripted]) -> Iterator[Remote]:
    """Two groups of two, welcomed."""
    one = Remote(welcome_of(seed=4), settings_of("environment.num_envs=4"))
    one.handle(welcome_of(seed=4), None)
    yield one
    one.close()


def seen(told: tuple[Observe, bytes]) -> StepBatch:
    message, body = told
    return BODIES.read_seen(body, begins=message.begins)


def answer(remote: Remote, message: Observe, actions: bytes = ACTIONS) -> None:
    remote.handle(Act(group=message.group, step=message.step), actions)


def test_each_group_shows_its_first_observations_and_waits(remote: Remote, scripted: list[Scripted]) -> None:
    assert len(scripted) == 2
    told = [remote.advance(), remote.advance()]
    assert [(message.group, message.begins, message.steps) for message, _ in told] == [(0, True, 0), (1, True, 0)]
    assert [seen(one).observations.tolist() for one in told] == [[[0, 0], [0, 0]]] * 2
    assert not remote.ready
    assert remote.due(1e9) == told


def test_a_step_is_taken_with_the_actions_that_came_and_told_of(remote: Remote, scripted: list[Scripted]) -> None:
    first, _ = remote.advance()
    second, _ = remote.advance()
    answer(remote, second)
    message, _ = told = remote.advance()
    assert (message.group, message.step, message.steps, message.emulator_frames) == (1, 2, 2, 8)
    assert scripted[1].taken[0].tolist() == [2, 1]
    assert scripted[0].taken == [], "the other group waits"
    what = seen(told)
    assert what.observations.tolist() == [[0, 1], [0, 1]]
    assert what.rewards.tolist() == [1.0, 1.0]
    assert what.valid.tolist() == [True, True]
    answer(remote, first)
    assert remote.advance()[0].group == 0


def test_episodes_and_dummy_steps_are_told_of(remote: Remote) -> None:
    told = remote.advance()
    remote.advance()
    steps, validity, terminated, episodes = [], [], [], []
    for _ in range(6):
        answer(remote, told[0])
        told = remote.advance()
        what = seen(told)
        steps.append(told[0].steps)
        validity.append(what.valid.tolist())
        terminated.append(what.terminated.tolist())
        episodes += [(value, length) for value, length, _ in told[0].episodes]
    assert steps == [2, 2, 2, 1, 2, 1]
    assert validity == [[True, True]] * 3 + [[False, True], [True, True], [True, False]]
    assert terminated == [[False, False]] * 2 + [[True, False]] + [[False, False]] * 3, "a time limit is none"
    assert episodes == [(4.0, 3), (7.0, 5)]


def test_a_lost_life_is_told_as_an_end_and_the_episode_goes_on(remote: Remote, scripted: list[Scripted]) -> None:
    scripted[0].life_ends = 2
    told = remote.advance()
    remote.advance()
    terminated, episodes = [], []
    for _ in range(3):
        answer(remote, told[0])
        told = remote.advance()
        terminated.append(seen(told).terminated.tolist())
        episodes += [length for _, length, _ in told[0].episodes]
    assert terminated == [[False, False], [True, True], [True, False]]
    assert episodes == [3]


def test_a_welcome_begins_with_the_observations_there_are(remote: Remote, scripted: list[Scripted]) -> None:
    for _ in range(2):
        remote.advance()
    answer(remote, remote.due(1e9)[0][0])
    remote.advance()
    remote.handle(welcome_of(epoch=2), None)
    message, _ = told = remote.advance()
    assert (message.begins, message.epoch) == (True, 2)
    assert seen(told).observations.tolist() == [[0, 1], [0, 1]], "the episodes go on"
    assert scripted[0].seeds == [None]


def test_a_failing_group_begins_new_episodes_while_the_other_plays_on(remote: Remote, scripted: list[Scripted]) -> None:
    first, second = remote.advance()[0], remote.advance()[0]
    answer(remote, first)
    answer(remote, second)
    scripted[0].rewards = [np.nan]
    with pytest.raises(UnavailableError, match="no finite number"):
        remote.advance()
    assert not remote.well
    assert remote.advance()[0].group == 1
    message, _ = remote.advance()
    assert (message.group, message.begins) == (0, True)
    assert [seed is None for seed in scripted[0].seeds] == [True, False], "not the episodes that failed"
    assert not remote.well, "it has taken no step yet"
    scripted[0].rewards = [1.0]
    answer(remote, message)
    remote.advance()
    assert remote.well


def test_actions_that_cannot_be_are_not_taken(remote: Remote) -> None:
    message, _ = remote.advance()
    remote.advance()
    answer(remote, message, b"\x00\x03")
    assert not remote.ready
    assert "an action beyond" in remote.trouble
    remote.handle(Act(group=9, step=1), ACTIONS)
    answer(remote, message, ACTIONS)
    assert remote.ready


def test_stacked_frames_are_not_made() -> None:
    assert unstacking(Environment(frame_stack=4)).stack == 1
    assert unstacking(Environment(frame_stack=1)) == Environment(frame_stack=1)


def test_no_torch_is_needed() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r}); sys.modules['torch'] = None\n"
        "import actor.daemon\n"
        "from actor.players.environments import Remote\n"
        "from common.settings.sections import Environment, Exchange, Settings\n"
        "from common.wire.messages import Welcome\n"
        "welcome = Welcome(run='r', epoch=1, heartbeat_seconds=1.0, expiry_seconds=9.0)\n"
        "remote = Remote(welcome, Settings())\n"
        "remote.handle(welcome, None)\n"
        "print(len(remote.advance()[1]))\n"
        "remote.close()\n"
    )
    command = [sys.executable, "-I", "-c", script]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert shown == "128\n", "eight observations of four float32"
