"""Actions by the learner against the same network playing by itself."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from actor.collector import Collector
from actor.outbox import Outbox
from actor.players.environments import EnvironmentPlayer
from common.errors import CodecError
from common.rl.action_spec import ActionSpec, discrete
from common.rl.algorithms.exploration import Sampling
from common.rl.environments.make import make
from common.rl.environments.names import resolve
from common.rl.moments import Moments
from common.rl.networks.model import build
from common.rl.observation_spec import ObservationSpec
from common.rl.rewards import reward_transform
from common.rl.rollout import Rollout
from common.settings.sections import Settings
from common.wire.bodies.observations import ObservationCodec, StepBatch, group_seed, group_sizes, sampler
from common.wire.frames import Buffer
from common.wire.messages import Act, Observe
from learner.exchange.policy_server import PolicyServer
from learner.parameters.batch_trainer import BatchTrainer
from learner.parameters.device_trainer import trainer_of
from learner.parameters.optimizers import make as make_optimizer
from learner.parameters.weights import Weights
from tests.helpers.fake_device import NotHost, statistics_apart
from tests.helpers.run import settings_of, welcome_of

SEEDS = (100_003, 100_004)
"""Of two actors."""
ROLLOUT, ROLLOUTS = 7, 6
SMALL = (
    "exchange.kind='actions'",
    f"algorithm.rollout_length={ROLLOUT}",
    "network.hidden=[16]",
    "environment.num_envs=5",
)


class Kept(BatchTrainer):
    """Keeps what it is given."""

    def __init__(self, settings: Settings, observation: ObservationSpec, action: ActionSpec) -> None:
        model = build(settings, observation, action)
        # Far from even, so that every layer shows in what is drawn.
        model.flat.vector.add_(torch.randn(model.flat.size, generator=torch.Generator().manual_seed(1)), alpha=0.3)
        optimizer = make_optimizer(settings.optimizer, model.flat.vector, 0)
        super().__init__(model, Weights(optimizer, model.extras, model.normalization), settings.algorithm)
        self.taken: list[Rollout] = []
        self.counts: list[float] = []

    def add(self, rollout: Rollout, *, weight: float = 1.0, count: float = 1) -> None:
        assert weight == 1.0
        self.taken.append(rollout)
        self.counts.append(count)


def server_of(*assignments: str) -> tuple[PolicyServer, Kept, Settings]:
    settings = settings_of(*SMALL, *assignments)
    settings = msgspec.structs.replace(settings, environment=resolve(settings.environment))
    environments = make(settings.environment, num_envs=1, seed=0)
    environments.close()
    observation, action = environments.observation, environments.action
    trainer = Kept(settings, observation, action)
    return PolicyServer(trainer, settings, observation, action), trainer, settings


def observed(outbox: Outbox) -> tuple[Observe, Buffer]:
    """The one message that is to be sent."""
    (send,) = outbox.due(0.0)
    assert isinstance(send.message, Observe) and send.body is not None
    return send.message, send.body


def exchanged(
    server: PolicyServer, settings: Settings, trainer: Kept, steps: int
) -> dict[tuple[int, int], list[Rollout]]:
    """Rollouts by actor and group, all groups of both actors in each pass."""
    outboxes = [Outbox() for _ in SEEDS]
    players = [
        EnvironmentPlayer(welcome_of(seed=seed), settings, outbox) for seed, outbox in zip(SEEDS, outboxes, strict=True)
    ]
    keys = [(actor, group) for actor in range(len(SEEDS)) for group in range(settings.exchange.groups)]
    memories = {(actor, group): server.open(SEEDS[actor], group, 0) for actor, group in keys}
    found: dict[tuple[int, int], list[Rollout]] = {key: [] for key in keys}
    for _ in range(steps + 1):
        waiting = []
        for actor, player in enumerate(players):
            while player.ready:
                player.advance(0.0)
                message, body = observed(outboxes[actor])
                key = (actor, message.group)
                if server.observe(memories[key], body, begins=message.begins) is not None:
                    found[key].append(trainer.taken.pop())
                waiting.append((key, message))
        bodies = server.act([memories[key] for key, _ in waiting], version=0)
        for ((actor, group), message), body in zip(waiting, bodies, strict=True):
            players[actor].handle(Act(group=group, step=message.step), body)
    for player in players:
        player.close()
    return found


def local(server: PolicyServer, trainer: Kept, settings: Settings, seed: int, group: int) -> list[Rollout]:
    """The same weights playing by themselves, with the same seeds, one group alone."""
    copies = group_sizes(settings.environment.num_envs, settings.exchange.groups)[group]
    environments = make(settings.environment, num_envs=copies, seed=group_seed(seed, group))
    rng = sampler(seed, group, 0)
    collector = Collector(
        environments,
        trainer.model,
        environments.observation,
        algorithm=settings.algorithm,
        rewards=reward_transform(settings, copies, trainer.model.normalization, trainer.model.extras),
        rng=rng,
        exploration=Sampling(trainer.model.action, rng),
    )
    rollouts = []
    for _ in range(ROLLOUTS):
        played = collector.advance(math.inf)
        assert played is not None
        rollouts.append(played.data.copy())
    environments.close()
    return rollouts


@pytest.mark.parametrize(
    "assignments",
    [
        (),
        ("exchange.groups=1",),
        ("environment.num_envs=17",),
        ("environment.frame_stack=3",),
        ("environment.id='Acrobot-v1'",),
        ("network.lstm=6",),
        ("network.lstm=6", "environment.frame_stack=3", "environment.num_envs=17"),
    ],
    ids=["uneven groups", "one group", "vectors", "stacked", "Acrobot", "recurrent", "recurrent, stacked"],
)
def test_the_same_seeds_give_the_same_actions_as_the_network_playing_by_itself(assignments: tuple[str, ...]) -> None:
    """The last bits of an output depend on the size of its batch, so probabilities are compared within rounding; the
    numbers drawn are the same, and an action could differ only where one of them falls within that rounding.
    """
    server, trainer, settings = server_of(*assignments)
    found = exchanged(server, settings, trainer, ROLLOUT * ROLLOUTS)
    for (actor, group), rollouts in found.items():
        expected = local(server, trainer, settings, SEEDS[actor], group)
        assert len(rollouts) == len(expected) == ROLLOUTS
        for one, other in zip(rollouts, expected, strict=True):
            for name in ("actions", "observations", "rewards", "terminated", "valid"):
                assert np.array_equal(getattr(one, name), getattr(other, name)), (actor, group, name)
            np.testing.assert_allclose(one.behaviour_log_probs, other.behaviour_log_probs, rtol=0, atol=1e-5)
            assert (one.state is None) == (other.state is None) == ("network.lstm=6" not in assignments)
            if one.state is not None:
                np.testing.assert_allclose(one.state, other.state, rtol=0, atol=1e-5)
    every = [rollout for rollouts in found.values() for rollout in rollouts]
    assert any(not rollout.valid.all() for rollout in every) or assignments == ("environment.id='Acrobot-v1'",)
    assert {action for rollout in every for action in rollout.actions.flatten().tolist()} >= {0, 1}


def test_the_rollouts_of_an_actors_groups_count_as_one_together() -> None:
    server, trainer, settings = server_of()  # of five environments in two groups
    exchanged(server, settings, trainer, ROLLOUT)
    assert sorted(trainer.counts) == [2 / 5, 2 / 5, 3 / 5, 3 / 5]


def test_what_running_statistics_are_of_is_counted_once_for_every_group() -> None:
    server, trainer, settings = server_of("network.normalize=true", "environment.reward_normalize=true")
    found = exchanged(server, settings, trainer, ROLLOUT * ROLLOUTS)
    expected = Moments.empty(trainer.model.normalization.counted)
    model = trainer.model
    for rollouts in found.values():
        transform = reward_transform(settings, rollouts[0].rewards.shape[1], model.normalization, model.extras)
        for one in rollouts:
            _, counted = transform.apply(one.observations[:-1], one.rewards, one.valid)
            assert counted is not None
            expected = expected.merged(counted)
    trainer.weights.end_version()
    assert trainer.weights.moments is not None
    count, means, squares = trainer.weights.moments
    assert count == expected.count == sum(one.steps for rollouts in found.values() for one in rollouts)
    np.testing.assert_allclose(means, expected.means)
    np.testing.assert_allclose(squares, expected.squares)


def test_rewards_that_nothing_can_be_learnt_from_are_refused_and_the_group_goes_on() -> None:
    server, trainer, _ = server_of("environment.reward_scale=1e30", "algorithm.rollout_length=1", "exchange.groups=1")
    bodies = ObservationCodec(ObservationSpec((4,), "box", 4), trainer.model.network.action, 5)
    memory, yes = server.open(0, 0, 0), np.ones(5, np.bool_)

    def seen(reward: float) -> bytes:
        given = StepBatch(np.zeros((5, 4), np.float32), np.full(5, reward, np.float32), ~yes, yes)
        return bodies.pack_seen(given, begins=False)

    server.observe(
        memory, bodies.pack_seen(StepBatch(np.zeros((5, 4), np.float32), *[yes] * 3), begins=True), begins=True
    )
    for reward, taken in ((1.0, 1), (1e30, 1), (1.0, 2)):
        server.act([memory], 0)
        with pytest.raises(CodecError, match="no finite number") if reward > 1 else contextlib.nullcontext():
            server.observe(memory, seen(reward), begins=False)
        assert len(trainer.taken) == taken


@pytest.mark.parametrize("spread", ["parameter", "state"])
def test_numbers_are_those_that_the_network_playing_by_itself_would_draw(spread: str) -> None:
    server, trainer, settings = server_of(
        *("environment.id='Pendulum-v1'", "environment.action_bounds='tanh'", "network.lstm=6"),
        f"network.log_std='{spread}'",
    )
    found = exchanged(server, settings, trainer, ROLLOUT * ROLLOUTS)
    for (actor, group), rollouts in found.items():
        for one, other in zip(rollouts, local(server, trainer, settings, SEEDS[actor], group), strict=True):
            for name in ("actions", "observations", "rewards", "behaviour_log_probs", "state"):
                # What is taken depends on the last bits of an output here, and what is seen on what was taken.
                np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-3, atol=1e-3)
            assert one.actions.shape[2:] == (1,)


def test_groups_draw_from_generators_of_their_own() -> None:
    server, trainer, settings = server_of()
    found = exchanged(server, settings, trainer, ROLLOUT)
    actions = [tuple(rollouts[0].actions[:, 0].tolist()) for rollouts in found.values()]
    assert len(set(actions)) > 1


def test_a_body_that_cannot_be_leaves_all_as_it_was() -> None:
    server, _, settings = server_of()
    outbox = Outbox()
    player = EnvironmentPlayer(welcome_of(), settings, outbox)
    player.advance(0.0)
    message, body = observed(outbox)
    player.close()
    memory = server.open(0, 0, 0)
    server.observe(memory, body, begins=True)
    before: NDArray[np.float32] = memory.buffer.observations.copy()
    with pytest.raises(CodecError, match="at least"):
        server.observe(memory, b"short", begins=False)
    assert (memory.buffer.observations == before).all()
    assert message.begins


def test_the_largest_body_is_known_beforehand() -> None:
    server, _, _ = server_of("environment.num_envs=3")
    assert server.max_bytes == 2 * (4 * 4 + 4) + 2, "the larger group: observations, rewards, bits"


STACK, SIDE = 4, 36
PICTURE = ObservationSpec((STACK, SIDE, SIDE), "pixels", STACK * SIDE * SIDE)


def on_device(lstm: int, device: bool, observation: ObservationSpec) -> tuple[PolicyServer, BatchTrainer, Settings]:
    """A server whose network is on the CPU, or on a CPU that is treated as another device."""
    stack = STACK if observation is PICTURE else 1
    network = (f"network.lstm={lstm}", "network.normalize=true")
    settings = settings_of(*SMALL, *network, "environment.num_envs=3", f"environment.frame_stack={stack}")
    model = build(settings, observation, discrete(3))
    noise = torch.randn(model.size, generator=torch.Generator().manual_seed(0))
    model.flat.vector.add_(noise, alpha=0.1)  # so that the actions depend on the observations
    weights = Weights(make_optimizer(settings.optimizer, model.flat.vector, 0), model.extras, model.normalization)
    if device:
        weights.transport = NotHost()
    trainer = trainer_of(model, weights, settings.algorithm)
    server = PolicyServer(trainer, settings, observation, discrete(3))
    if device:
        for one in (model, server._twin):
            statistics_apart(one)
    return server, trainer, settings


@pytest.mark.parametrize(("observation", "lstm"), [(PICTURE, 0), (PICTURE, 4), (ObservationSpec((2,), "box", 2), 0)])
def test_a_device_acts_and_learns_as_a_cpu_does(observation: ObservationSpec, lstm: int) -> None:
    rng = np.random.default_rng(0)
    made = [on_device(lstm, device, observation) for device in (False, True)]
    sizes = group_sizes(3, 2)
    frame = (1, SIDE, SIDE) if observation is PICTURE else observation.shape
    one = ObservationSpec(frame, observation.kind, math.prod(frame))
    memories = [[server.open(7, group, 0) for group in range(2)] for server, _, _ in made]
    for t in range(3 * ROLLOUT + 1):
        bodies = []
        for count in sizes:
            frames: Any = rng.integers(256, size=(count, *frame)).astype(one.dtype)
            flags = rng.random((2, count)) < 0.8
            seen = StepBatch(frames, rng.random(count).astype(np.float32), flags[0], flags[1])
            bodies.append(ObservationCodec(one, discrete(3), count).pack_seen(seen, begins=t == 0))
        answers, learnt = [], []
        for (server, trainer, _), groups in zip(made, memories, strict=True):
            for group, body in zip(groups, bodies, strict=True):
                server.observe(group, body, begins=t == 0)
            trainer.begin(scale=1.0, frames=0)
            learnt.append(trainer.finish().statistics)
            trainer.model.extras[...] = 0.01 * (1 + t)  # the running statistics, which change with the version
            server.renew()
            answers.append(server.act(groups, version=0))
        assert answers[0] == answers[1]
        assert learnt[1] == pytest.approx(learnt[0], rel=1e-2, abs=1e-4)
        assert bool(learnt[0]) == (t > 0 and t % ROLLOUT == 0)
    vectors = [trainer.model.flat.vector for _, trainer, _ in made]
    torch.testing.assert_close(vectors[0], vectors[1], rtol=1e-3, atol=1e-4)
