"""A simulated, changing fleet: actors that play and wait for their answers, and a learner that takes time to answer.

Everything that the policies see (rates, lag, busy time, frames, episodes) follows from the actors and the learner
through the learner's own statistics; only the clock is not real. Every run of a simulation is the same.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from common.wire.messages import FleetOrder, Gradient
from learner.fleet import Fleet
from learner.peer import Peer
from tests.helpers.run import gradient_of, hello_of, learner_of, logged, sent

LAUNCHER = b"launcher"
LEAVING_SECONDS = 0.3


@dataclass
class Actor:
    routing_id: bytes
    peer: Peer | None = None
    """None: the actor is still starting, or has left."""
    version: int = 0
    """Version of the weights that play the rollout under way."""
    gone: bool = False
    steps: float = 0.0
    """Steps since the last episode ended."""


@dataclass
class SimulatedFleet:
    """A learner with `settings`, and a launcher that follows its orders."""

    settings: tuple[str, ...]
    rollout_seconds: float
    """Seconds that an actor takes for a rollout, alone on its core."""
    learner_seconds: float
    """Seconds that the learner takes for a gradient."""
    start_seconds: float = 3.0
    """Seconds that an actor takes to start."""
    cores: int = 1000
    """Number of actors that play at full speed at once; more actors share these cores."""
    weights_delay: Callable[[int], float] = lambda _: 0.0
    """Least age, in seconds, of an actor's weights, by the number of actors."""
    count: int = 1
    """Rollouts in a message."""
    rollout_steps: int = 20
    episode_length: Callable[[int], float] = lambda _: 1e9
    """Length of an episode in steps, by the number of episodes so far."""
    step_seconds: float = 0.01
    now: float = 0.0
    wanted: int = 0
    course: list[tuple[float, int]] = field(default_factory=list)
    """Changes of the wanted number: time and number."""
    lines: list[str] = field(default_factory=list)
    actors: list[Actor] = field(default_factory=list)

    def __post_init__(self) -> None:
        core, _ = learner_of(*self.settings, "exchange.accumulate=64")
        self.run = core.run
        self._fleet = Fleet(self.run)
        self._random = random.Random(0)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0
        self._free_at = 0.0
        self._steps: list[float] = []
        """Times of the learner's steps."""
        self._plain = gradient_of(count=self.count, steps=self.count * self.rollout_steps)
        self.launcher(LAUNCHER)
        self._after(0.0, self._decide)

    # -- what a test does to it ----------------------------------------------------------------------------------------

    def launcher(self, routing_id: bytes) -> None:
        self.run.peers.join(routing_id, hello_of(routing_id.decode(), "launcher", slots=4096), self.now)

    def join_by_hand(self) -> None:
        self._start("")

    def play(self, seconds: float) -> list[int]:
        """Simulates `seconds`; returns the number wanted at the end of each second."""
        end, numbers, second = self.now + seconds, [], self.now + 1.0
        while self._events and self._events[0][0] <= end:
            self.now, _, happens, arguments = heapq.heappop(self._events)
            while second < self.now:
                numbers.append(self.wanted)
                second += 1.0
            happens(*arguments)
        self.now = end
        return [*numbers, self.wanted]

    @property
    def playing(self) -> int:
        return sum(actor.peer is not None for actor in self.actors)

    @property
    def why(self) -> str:
        return self.run.stats.decision.why

    # -- what happens --------------------------------------------------------------------------------------------------

    def _after(self, seconds: float, happens: Callable[..., None], *arguments: Any) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, happens, arguments))

    def _decide(self) -> None:
        effects = self._fleet.decide(self.now)
        self.lines += logged(effects)
        wanted = self.run.stats.decision.wanted
        if wanted != self.wanted or not self.course:
            assert self.wanted == 0 or sent(effects, FleetOrder)
            self.wanted = wanted
            self.course.append((self.now, wanted))
        mine = [actor for actor in self.actors if not actor.gone and not actor.routing_id.startswith(b"hand")]
        for _ in range(wanted - len(mine)):
            self._start("launcher")
        for actor in mine[wanted:]:
            actor.gone = True
            self._after(LEAVING_SECONDS, self._leave, actor)
        self._after(self.run.spec.settings.scaling.interval_seconds, self._decide)

    def _start(self, launcher: str) -> None:
        self._number += 1
        actor = Actor(f"{launcher or 'hand'}-{self._number}".encode())
        self.actors.append(actor)
        self._after(self.start_seconds * self._random.uniform(0.8, 1.2), self._join, actor, launcher)

    def _join(self, actor: Actor, launcher: str) -> None:
        if not actor.gone:
            name = actor.routing_id.decode()
            actor.peer, _ = self.run.peers.join(actor.routing_id, hello_of(name, launcher=launcher), self.now)
            self._begin(actor)

    def _leave(self, actor: Actor) -> None:
        self.run.peers.leave(actor.routing_id)
        actor.peer = None
        self.actors.remove(actor)

    def _begin(self, actor: Actor) -> None:
        if actor.peer is None:
            return
        seen = self.now - self.weights_delay(self.playing)
        actor.version = bisect_right(self._steps, seen)
        slowed = max(1.0, self.playing / self.cores)
        self._after(self.count * self.rollout_seconds * slowed * self._random.uniform(0.9, 1.1), self._send, actor)

    def _send(self, actor: Actor) -> None:
        if actor.peer is not None:
            self._free_at = max(self._free_at, self.now) + self.learner_seconds * self.count
            self._after(self._free_at - self.now, self._taken_in, actor)

    def _taken_in(self, actor: Actor) -> None:
        """Ends the learner's work on an actor's message, and answers it."""
        peer, stats = actor.peer, self.run.stats
        stats.busy.working(self.now, self.learner_seconds * self.count)
        if peer is None:
            return
        header = self._header(actor)
        peer.claimed_steps += header.steps
        stats.lagged(self.now, peer, len(self._steps) - actor.version, header.count)
        stats.stepped({}, stats.counters.frames)
        stats.played(self.now, peer, header)
        stats.applied(peer, {})
        self._steps.append(self.now)
        self._begin(actor)

    def _header(self, actor: Actor) -> Gradient:
        actor.steps += self.count * self.rollout_steps
        length = self.episode_length(self.run.stats.counters.episodes)
        ended = []
        while actor.steps >= length:
            actor.steps -= length
            ended.append((1.0, round(length), round(length) * self.step_seconds))
        return gradient_of(count=self.count, steps=self._plain.steps, episodes=ended) if ended else self._plain
