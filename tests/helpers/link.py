"""A learner's core and several actors' cores on a fake network.

A sent message is under way until the test delivers, loses or duplicates it. A rollout is a number; a gradient's body is
the list of rollouts added up in it, so that the learner's sum shows what was applied.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field

from actor.core import ActorCore
from actor.effects import Effect, Leave, Prepare
from actor.outbox import Outbox, Send
from actor.players.base import Player
from actor.rollout_summary import RolloutSummary
from common.wire.bodies.broadcast import Broadcast
from common.wire.bodies.delta import keyframe_of
from common.wire.frames import Buffer, split
from common.wire.messages import Acknowledgement, Gradient
from learner.applied import Added, Began, Stepped
from learner.core import LearnerCore
from learner.effects import Effect as LearnerEffect
from learner.effects import Publish, Record
from learner.effects import Send as LearnerSend
from learner.exchange.step_rule import coalesce
from learner.run_stats import Counters
from simulation.network import Frames, frames_of
from tests.helpers.run import NotedSum, hello_of, learner_of, version_of, version_of_delta

NO_KEYFRAME = (0, -1)


@dataclass
class Wires:
    """Messages under way from and to one actor."""

    up: list[Frames] = field(default_factory=list)
    down: list[Frames] = field(default_factory=list)
    news: list[bytes] = field(default_factory=list)
    """Broadcasts under way; the actor reads only the newest (CONFLATE)."""

    def cut(self) -> None:
        """Breaks the connection: everything under way is lost."""
        self.up.clear()
        self.down.clear()
        self.news.clear()


class ActorShell(Player):
    """An actor's core, its wires, and a player whose rollouts are numbers; the test tells it when to play."""

    contribution = Gradient

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.core = ActorCore(hello_of(name), now)
        self.wires = Wires()
        self.sum: list[int] = []
        """Rollouts that are added up and not yet packed."""
        self.shipped: dict[int, list[int]] = {}
        """Rollouts of every packed gradient, by sequence number."""
        self.given_up: set[int] = set()
        """Rollouts that a new epoch made worthless."""
        self.loaded: list[tuple[int, int]] = []
        """Epoch and version of all loaded weights, in order."""
        self._keyframe = NO_KEYFRAME
        """Epoch and version of the last whole weights of this epoch."""
        self.prepared = 0
        self.left = ""
        self._answered: set[int] = set()
        self._summary = RolloutSummary()

    @property
    def bodies(self) -> Outbox:
        """Gradients that were sent and are not answered."""
        return self.core.outbox

    @property
    def pending(self) -> int:
        return len(self.sum)

    def play(self, now: float, rollout: int) -> None:
        """Plays one rollout on the weights last loaded, if the core has work."""
        if self.core.state == "working":
            self.sum.append(rollout)
            self._summary.add(RolloutSummary(self.loaded[-1][1], steps=20, emulator_frames=20, count=1))
            self.do(self.core.advanced(now))

    def pack(self, sequence: int | None) -> tuple[RolloutSummary, bytes]:
        assert sequence is not None
        self.shipped[sequence], self.sum = self.sum, []
        summary, self._summary = self._summary, RolloutSummary()
        return summary, json.dumps(self.shipped[sequence]).encode()

    def answered(self, sequence: int, *, dropped: bool) -> None:
        assert sequence not in self._answered
        self._answered.add(sequence)

    @property
    def keyframe(self) -> int:
        return self._keyframe[1]

    def forget(self) -> None:
        open_ = self.shipped.keys() - self._answered
        self.given_up.update(self.sum, *(self.shipped[sequence] for sequence in open_))
        self._answered |= open_
        self.sum = []
        self._summary = RolloutSummary()
        self._keyframe = NO_KEYFRAME

    def load(self, version: int, body: Buffer, *, delta: bool = False) -> bool:
        assert self.core.membership.welcome is not None
        epoch = self.core.membership.welcome.epoch
        if delta and keyframe_of(body) != self._keyframe[1]:
            return False
        if delta:
            assert version_of_delta(body, self._keyframe[1]) == version
        else:
            assert version_of(body) == version
            self._keyframe = (epoch, version)
        assert self._keyframe[0] == epoch
        self.loaded.append((epoch, version))
        return True

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self.wires.up.append(frames_of(effect.message, effect.body))
                case Prepare():
                    self.prepared += 1
                    if effect.body is not None:
                        self.load(effect.welcome.version, effect.body)
                    self.core.player = self
                case Leave():
                    self.left = effect.reason


class Link:
    """The learner, the actors, the network and the clock."""

    def __init__(self, *assignments: str, actors: int = 1) -> None:
        self.now = 100.0
        self.assignments = assignments
        self.epoch = 1
        self.learner: LearnerCore
        self.store: NotedSum
        self.learner, self.store = learner_of(*assignments, now=self.now)
        self.stores = [self.store]
        self.published: list[tuple[int, int]] = []
        self.verdicts: list[tuple[str, int, str]] = []
        """Actor, sequence number and verdict of every acknowledgement."""
        self.recorded: list[Record] = []
        """Records of all epochs, if `record.gradients` is among the assignments."""
        self.actors: list[ActorShell] = []
        self.rollouts = 0
        self._numbers = itertools.count()
        self._most_per_step = 0
        """Most gradients that may go into the step under way."""
        self.step_limits: list[int] = []
        """Most gradients that could go into each step of this epoch."""
        self._do(self.learner.begin())
        for _ in range(actors):
            self.join()

    def join(self) -> ActorShell:
        """Starts one more actor."""
        self.actors.append(ActorShell(f"actor{next(self._numbers)}", self.now))
        return self.actors[-1]

    def play(self, actor: ActorShell) -> None:
        """Lets an actor play one rollout."""
        actor.play(self.now, self.rollouts)
        self.rollouts += 1

    def deliver_up(self, actor: ActorShell, index: int = 0) -> None:
        """Lets the learner read one of the actor's messages."""
        message, body = split(actor.wires.up.pop(index))
        self._most_per_step = max(self._most_per_step, self._step_limit())
        self._do(self.learner.handle(self.now, actor.name.encode(), message, body))
        self._note_steps()

    def deliver_down(self, actor: ActorShell, index: int = 0) -> None:
        """Lets the actor read one of the learner's messages."""
        message, body = split(actor.wires.down.pop(index))
        actor.do(actor.core.handle(self.now, message, body))

    def deliver_news(self, actor: ActorShell) -> None:
        """Lets the actor read the newest broadcast."""
        frame = actor.wires.news[-1]
        actor.wires.news.clear()
        actor.do(actor.core.broadcast(self.now, frame))

    def tick(self, seconds: float) -> None:
        """Lets time pass, and all do what is due. The learner ticks each second, as a longer pause excuses silence."""
        until = self.now + seconds
        while True:
            self.now = min(self.now + 1.0, until)
            self._do(self.learner.answer(self.now))
            self.flush()
            self._do(self.learner.tick(self.now))
            if self.now >= until:
                break
        for actor in self.actors:
            actor.do(actor.core.tick(self.now))

    def flush(self) -> None:
        """Lets the learner take a step, as after it has read enough."""
        self._do(self.learner.flush(self.now))
        self._note_steps()
        self._most_per_step = self._step_limit()

    def restart(self, counters: Counters) -> None:
        """Restarts the learner in a new epoch; messages under way to it may still arrive."""
        self.epoch += 1
        self.learner, self.store = learner_of(*self.assignments, now=self.now, epoch=self.epoch, counters=counters)
        self.stores.append(self.store)
        self._most_per_step = 1
        self.step_limits = []
        for actor in self.actors:
            actor.wires.down.clear()
            actor.wires.news.clear()
        self._do(self.learner.begin())

    def settle(self, seconds: float = 0.1) -> None:
        """Delivers until nothing is under way."""
        self.tick(seconds)
        for _ in range(1000):
            busy = False
            self.tick(0.0)
            for actor in self.actors:
                while actor.wires.up:
                    busy = True
                    self.deliver_up(actor)
                while actor.wires.down:
                    busy = True
                    self.deliver_down(actor)
                while actor.wires.news:
                    self.deliver_news(actor)
            if not busy:
                return
        raise AssertionError("the two ends never stop talking")

    def applied(self) -> list[int]:
        """Returns every rollout of every step taken, over all epochs."""
        return [
            rollout
            for store in self.stores
            for added, _, _ in store.steps
            for body, _, _ in added
            for rollout in json.loads(body)
        ]

    def recorded_steps(self) -> list[tuple[list[tuple[bytes, str, float]], float, int]]:
        """Returns, from the record, each step of all epochs: its additions, scale and frames."""
        steps, added = [], []
        for record in self.recorded:
            match record.entry:
                case Began():
                    added = []
                case Added(header=header, weight=weight):
                    assert record.body is not None
                    added.append((bytes(record.body), header.codec, weight))
                case Stepped(scale=scale, frames=frames):
                    steps.append((added, scale, frames))
                    added = []
        return steps

    def _note_steps(self) -> None:
        self.step_limits += [self._most_per_step] * (len(self.store.steps) - len(self.step_limits))

    def _step_limit(self) -> int:
        return coalesce(self.learner.run.peers.actors, self.learner.run.spec.settings.exchange.coalesce)

    def _do(self, effects: list[LearnerEffect]) -> None:
        names = {actor.name.encode(): actor for actor in self.actors}
        for effect in effects:
            if isinstance(effect, LearnerSend) and effect.peer in names:
                names[effect.peer].wires.down.append(frames_of(effect.message, effect.body))
                if isinstance(effect.message, Acknowledgement):
                    self.verdicts.append((effect.peer.decode(), effect.message.sequence, effect.message.verdict))
            elif isinstance(effect, Record):
                self.recorded.append(effect)
            elif isinstance(effect, Publish):
                news = Broadcast.unpack(effect.frame)
                self.published.append((news.epoch, news.version))
                for actor in self.actors:
                    actor.wires.news.append(effect.frame)
