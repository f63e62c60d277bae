from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import actor.players.environments
from actor.outbox import Outbox, Send
from actor.players.environments import EnvironmentPlayer
from common.errors import CodecError, UnavailableError
from common.rl.action_spec import discrete
from common.rl.observation_spec import ObservationSpec
from common.settings.sections import Environment
from common.wire.bodies.observations import ObservationCodec, StepBatch
from common.wire.messages import Act, Observe, Welcome
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
        assert (num_envs, section.frame_stack) == (len(LENGTHS), 1), "the learner stacks frames"
        made.append(Scripted(LENGTHS, rewards=(1.0, 2.0), cut=(1,)))
        return made[-1]

    monkeypatch.setattr(actor.players.environments, "make_environments", make)
    yield made
    assert all(environments.closed for environments in made)


class Playing:
    """Two groups of two, and what they put into the outbox."""

    def __init__(self, welcome: Welcome) -> None:
        self.outbox = Outbox()
        self.player = EnvironmentPlayer(
            welcome, settings_of("environment.num_envs=4", "environment.frame_stack=4"), self.outbox
        )

    def advance(self) -> tuple[Observe, StepBatch]:
        """A step, and its message."""
        self.player.advance(0.0)
        (send,) = self.outbox.due(0.0)
        return shown(send)

    def answer(self, message: Observe, actions: bytes = ACTIONS) -> None:
        self.player.handle(Act(group=message.group, step=message.step), actions)


def shown(send: Send) -> tuple[Observe, StepBatch]:
    assert isinstance(send.message, Observe) and send.body is not None
    return send.message, BODIES.read_seen(send.body, begins=send.message.begins)


@pytest.fixture
def playing(scripted: list[Scripted]) -> Iterator[Playing]:
    one = Playing(welcome_of(seed=4))
    yield one
    one.player.close()


def test_each_group_shows_its_first_observations_and_waits(playing: Playing, scripted: list[Scripted]) -> None:
    assert len(scripted) == 2
    told = [playing.advance(), playing.advance()]
    assert [(message.group, message.begins, message.steps) for message, _ in told] == [(0, True, 0), (1, True, 0)]
    assert [batch.observations.tolist() for _, batch in told] == [[[0, 0], [0, 0]]] * 2
    assert not playing.player.ready
    assert [shown(send)[0] for send in playing.outbox.due(1e9)] == [message for message, _ in told]


def test_a_step_is_taken_with_the_actions_that_came(playing: Playing, scripted: list[Scripted]) -> None:
    first, _ = playing.advance()
    second, _ = playing.advance()
    playing.answer(second)
    message, batch = playing.advance()
    assert (message.group, message.step, message.steps, message.emulator_frames) == (1, 2, 2, 8)
    assert scripted[1].taken[0].tolist() == [2, 1]
    assert scripted[0].taken == [], "the other group waits"
    assert batch.observations.tolist() == [[0, 1], [0, 1]]
    assert batch.rewards.tolist() == [1.0, 1.0]
    assert batch.valid.tolist() == [True, True]
    playing.answer(first)
    assert playing.advance()[0].group == 0


def test_episodes_and_dummy_steps_are_in_the_message(playing: Playing) -> None:
    message, _ = playing.advance()
    playing.advance()
    steps, validity, terminated, episodes = [], [], [], []
    for _ in range(6):
        playing.answer(message)
        message, batch = playing.advance()
        steps.append(message.steps)
        validity.append(batch.valid.tolist())
        terminated.append(batch.terminated.tolist())
        episodes += [(episode.episode_return, episode.length) for episode in message.episodes]
    assert steps == [2, 2, 2, 1, 2, 1]
    assert validity == [[True, True]] * 3 + [[False, True], [True, True], [True, False]]
    assert terminated == [[False, False]] * 2 + [[True, False]] + [[False, False]] * 3, "a time limit is none"
    assert episodes == [(4.0, 3), (7.0, 5)]


def test_a_lost_life_is_shown_as_an_end_and_the_episode_goes_on(playing: Playing, scripted: list[Scripted]) -> None:
    scripted[0].life_ends = 2
    message, _ = playing.advance()
    playing.advance()
    terminated, lengths = [], []
    for _ in range(3):
        playing.answer(message)
        message, batch = playing.advance()
        terminated.append(batch.terminated.tolist())
        lengths += [episode.length for episode in message.episodes]
    assert terminated == [[False, False], [True, True], [True, False]]
    assert lengths == [3]


def test_a_welcome_begins_with_the_observations_there_are(playing: Playing, scripted: list[Scripted]) -> None:
    first, _ = playing.advance()
    playing.advance()
    playing.answer(first)
    playing.advance()
    playing.player.handle(welcome_of(epoch=2), None)
    message, batch = playing.advance()
    assert (message.begins, message.epoch) == (True, 2)
    assert batch.observations.tolist() == [[0, 1], [0, 1]], "the episodes go on"
    assert scripted[0].seeds == [None]


def test_a_failing_group_begins_new_episodes_while_the_other_plays_on(
    playing: Playing, scripted: list[Scripted]
) -> None:
    for message, _ in (playing.advance(), playing.advance()):
        playing.answer(message)
    scripted[0].rewards = [np.nan]
    with pytest.raises(UnavailableError, match="no finite number"):
        playing.player.advance(0.0)
    assert not playing.player.advance(0.0), "the other group's step does not make up for the failure"
    assert not playing.player.advance(0.0), "it has shown new observations, and taken no step yet"
    last = shown(playing.outbox.due(0.0)[-1])[0]
    assert (last.group, last.begins) == (0, True)
    assert [seed is None for seed in scripted[0].seeds] == [True, False], "not the episodes that failed"
    scripted[0].rewards = [1.0]
    playing.answer(last)
    assert playing.player.advance(0.0)


def test_a_first_observation_that_is_not_finite_is_replaced_by_one_of_a_new_episode(
    playing: Playing, scripted: list[Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripted[0], "_observations", lambda: np.full((2, 2), np.nan, np.float32))
    with pytest.raises(UnavailableError, match="no finite number"):
        playing.player.advance(0.0)
    monkeypatch.undo()
    playing.advance()
    message, batch = playing.advance()
    assert (message.group, message.begins) == (0, True)
    assert np.isfinite(batch.observations).all()


def test_actions_that_cannot_be_are_not_taken(playing: Playing) -> None:
    message, _ = playing.advance()
    playing.advance()
    with pytest.raises(CodecError, match="an action beyond"):
        playing.answer(message, b"\x00\x03")
    assert not playing.player.ready
    playing.player.handle(Act(group=9, step=1), ACTIONS)
    playing.answer(message, ACTIONS)
    assert playing.player.ready


def test_no_torch_is_needed() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r}); sys.modules['torch'] = None\n"
        "import actor.daemon\n"
        "from actor.outbox import Outbox\n"
        "from actor.players.build import build\n"
        "from common.settings.sections import Exchange, Settings\n"
        "from common.wire.messages import Welcome\n"
        "welcome = Welcome(run='r', epoch=1, heartbeat_seconds=1.0, expiry_seconds=9.0)\n"
        "outbox = Outbox()\n"
        "player = build(welcome, Settings(exchange=Exchange(kind='actions')), None, outbox)\n"
        "player.advance(0.0)\n"
        "print(len(outbox.due(0.0)[0].body))\n"
        "player.close()\n"
    )
    command = [sys.executable, "-I", "-c", script]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert shown == "128\n", "eight observations of four float32"
