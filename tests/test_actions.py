"""Both ends of exchange.kind = "actions" against each other, on a network that loses, delays, repeats and reorders."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence

import pytest

from actor.core import ActorCore
from actor.effects import Effect, Prepare
from actor.outbox import Send
from actor.players import base
from actor.players.action_requests import RESEND_SECONDS, ActionRequests
from actor.rollout_summary import RolloutSummary
from common.wire.frames import Buffer, split
from common.wire.messages import Act, AnyMessage, Welcome
from learner.effects import Effect as LearnerEffect
from learner.effects import Send as LearnerSend
from simulation.network import Frames, frames_of
from tests.helpers.run import NotedSum, core_of, hello_of, run_of, settings_of

GROUPS, ROLLOUT = 2, 3
Step = tuple[str, int, int]
"""Actor, group, and how many steps its environments had taken."""


class Network:
    """Keeps what groups show: the number of steps that were taken, by which all can be told apart."""

    max_bytes = 1000

    def __init__(self) -> None:
        self.seen: dict[int, list[tuple[Step, bool]]] = {}
        """By memory: each observation, and whether the group began with it."""

    def open(self, seed: int, group: int, step: int) -> int:
        self.seen[len(self.seen)] = []
        return len(self.seen) - 1

    def observe(self, memory: int, body: Buffer, *, begins: bool, source: str) -> int | None:
        actor, group, step = json.loads(bytes(body))
        assert source == actor
        self.seen[memory].append(((actor, group, step), begins))
        return None

    def act(self, memories: Sequence[int], version: int) -> list[bytes]:
        return [json.dumps(self.seen[memory][-1][0]).encode() for memory in memories]


class Player(base.Player):
    """An actor's core, its wires, and groups without environments: a group's state is the number of its steps."""

    def __init__(self, name: str, now: float) -> None:
        self.name, self.core = name, ActorCore(hello_of(name), now)
        self.up: list[Frames] = []
        self.down: list[Frames] = []
        self.taken = [0] * GROUPS
        self.requests: ActionRequests

    @property
    def ready(self) -> bool:
        return self.requests.ready is not None

    def advance(self, until: float) -> bool:
        group = self.requests.ready
        assert group is not None
        self.taken[group] += not self.requests.begins(group)
        self.requests.ask(group, json.dumps([self.name, group, self.taken[group]]).encode(), RolloutSummary())
        return True

    def handle(self, message: AnyMessage, body: Buffer | None) -> None:
        if isinstance(message, Welcome):
            self.requests.welcomed(message)
        elif isinstance(message, Act) and self.requests.answered(message):
            # What it asked last, and nothing older: the environments have not moved since.
            assert json.loads(bytes(body or b"")) == [self.name, message.group, self.taken[message.group]]

    def hear(self, now: float, frames: Frames) -> None:
        self.do(self.core.handle(now, *split(frames)))

    def play(self, now: float) -> None:
        while self.core.state == "working" and self.ready:
            self.advance(now)
            self.do(self.core.advanced(now))

    def tick(self, now: float) -> None:
        self.do(self.core.tick(now))

    def do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Prepare):
                self.requests = ActionRequests(GROUPS, effect.welcome, self.core.outbox)
                self.core.player = self
            if isinstance(effect, Send):
                self.up.append(frames_of(effect.message, effect.body))


class World:
    """A learner, some players, and a network whose faults are drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        batch, wait = self.rng.choice([1, 2, 1024]), self.rng.choice([0, 50])
        self.assignments = (
            *("exchange.kind='actions'", "environment.num_envs=2", f"exchange.groups={GROUPS}"),
            *(f"exchange.batch={batch}", f"exchange.batch_wait_ms={wait}"),
        )
        self.now, self.epoch = 100.0, 0
        self.networks: list[Network] = []
        self.players = [Player(f"actor{number}", self.now) for number in range(self.rng.randint(1, 3))]
        self.restart()

    def restart(self) -> None:
        """The learner dies and comes back in a new epoch; what is under way to it may still arrive."""
        self.epoch += 1
        chosen = settings_of(*self.assignments)
        self.networks.append(Network())
        run = run_of(chosen, epoch=self.epoch, now=self.now)
        self.learner = core_of(run, NotedSum(), self.now, self.networks[-1])
        for player in self.players:
            player.down.clear()

    def replace(self, player: Player) -> None:
        """An actor dies, and another starts."""
        self.players.remove(player)
        self.players.append(Player(f"{player.name}+", self.now))

    def round(self, seconds: float, faults: float) -> None:
        """Everyone does what there is to do; each message meets a fault with that probability."""
        self.now += seconds
        self.do(self.learner.answer(self.now))
        self.do(self.learner.tick(self.now))
        for player in self.players:
            player.tick(self.now)
            player.play(self.now)
            for frames in self.deliver(player.up, faults):
                message, body = split(frames)
                self.do(self.learner.handle(self.now, player.name.encode(), message, body))
            for frames in self.deliver(player.down, faults):
                player.hear(self.now, frames)

    def deliver(self, queue: list[Frames], faults: float) -> list[Frames]:
        """What arrives of the messages under way; some stay for later."""
        arrived = []
        for frames in queue[:]:
            fault = self.rng.choice(["lost", "twice", "late", "late twice"]) if self.rng.random() < faults else ""
            if "late" not in fault:
                queue.remove(frames)
            if fault != "lost" and fault != "late":
                arrived += [frames] * (1 + (fault == "twice"))
        return arrived

    def do(self, effects: list[LearnerEffect]) -> None:
        names = {player.name.encode(): player for player in self.players}
        for effect in effects:
            if isinstance(effect, LearnerSend) and effect.peer in names:
                names[effect.peer].down.append(frames_of(effect.message, effect.body))


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_stepped_twice_or_left_out_and_all_goes_on(seed: int) -> None:
    world = World(seed)
    for _ in range(300):
        world.round(world.rng.choice([0.0, 0.0, 0.06, 1.1, RESEND_SECONDS]), faults=0.2)
        if world.rng.random() < 0.02:
            world.rng.choice([world.restart, lambda: world.replace(world.rng.choice(world.players))])()
    for network in world.networks:
        for shown in network.seen.values():
            for (before, _), (after, begins) in itertools.pairwise(shown):
                assert before[:2] == after[:2], "one memory, one group"
                assert begins or after[2] == before[2] + 1
    taken = {player.name: list(player.taken) for player in world.players}
    for _ in range(60):
        world.round(1.1, faults=0.0)
    for player in world.players:
        assert all(now > then + 20 for now, then in zip(player.taken, taken[player.name], strict=True))
