"""A learner's core, relays' cores and their actors' cores on a fake network.

As in `tests.helpers.link`, a message is under way until the test delivers it, and a rollout is a number. A gradient's
body is a vector with a 1 for each rollout in it, so that a sum of sums shows what was applied, and how often.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import numpy as np

from actor.outbox import Send as ToLearner
from common.wire.bodies.broadcast import Broadcast
from common.wire.frames import split
from common.wire.messages import Gradient
from learner.core import LearnerCore
from learner.effects import Effect as LearnerEffect
from learner.effects import Publish
from learner.effects import Send as ToSite
from learner.run import Run
from learner.run_stats import Counters
from relay.core import RelayCore
from relay.effects import Effect, Leave, Serve
from simulation.network import frames_of
from tests.helpers.link import ActorShell, Wires
from tests.helpers.run import ONE_CODEC, NotedSum, core_of, hello_of, run_of, settings_of

ROLLOUTS = 2048
"""Most rollouts in one test, which is the number of elements of a gradient."""
RELAY_PORT = 6001


def rollouts_in(body: bytes) -> list[int]:
    """Returns the rollouts in this body's sum, each as often as it is in it."""
    vector = np.frombuffer(body, np.float32)
    return [int(number) for number in np.flatnonzero(vector) for _ in range(round(float(vector[number])))]


class SiteActor(ActorShell):
    """An actor that connects to a relay."""

    def __init__(self, name: str, site: Site, now: float) -> None:
        super().__init__(name, now)
        self.site = site

    def pack(self, sequence: int | None) -> tuple:  # type: ignore[type-arg]
        summary, _ = super().pack(sequence)
        vector = np.zeros(ROLLOUTS, np.float32)
        vector[self.shipped[sequence or 0]] = 1.0
        return summary, vector.tobytes()


@dataclass
class Site:
    """A relay, and the messages under way between it and the learner."""

    name: str
    core: RelayCore
    lives: int = 1
    wires: Wires = field(default_factory=Wires)
    served: list[Serve] = field(default_factory=list)
    left: str = ""
    told: list[str] = field(default_factory=list)
    """Lines of its log."""
    sums: list[tuple[int, Gradient, list[int]]] = field(default_factory=list)
    """Every sum that was sent: the relay's life that sent it, its header, and the rollouts in it."""


class SiteLink:
    """The learner, the relays, the actors, the network and the clock."""

    def __init__(self, *assignments: str, actors: int = 2, relays: int = 1) -> None:
        self.now = 100.0
        self.assignments = ("exchange.kind=gradients", "algorithm.max_grad_norm=100000.0", *assignments)
        self.epoch = 1
        self.rollouts = 0
        self.learner: LearnerCore
        self.stores: list[NotedSum] = []
        self._numbers = itertools.count()
        self.start_learner(Counters())
        self.sites = [self._site(number) for number in range(relays)]
        self.actors: list[SiteActor] = []
        for number in range(actors):
            self.join(self.sites[number % relays])

    def start_learner(self, counters: Counters) -> None:
        settings, noted = settings_of(*ONE_CODEC, *self.assignments), NotedSum(counters.version)
        run = run_of(settings, epoch=self.epoch, counters=counters, now=self.now)
        run = Run(replace(run.spec, parameters=ROLLOUTS), run.peers, run.stats, run.saves)
        self.learner = core_of(run, noted, self.now)
        self.stores.append(noted)

    def _site(self, number: int) -> Site:
        name = f"site{number}"
        return Site(name, self._relay(name, 1))

    def _relay(self, name: str, life: int) -> RelayCore:
        hello = hello_of(name, "relay", incarnation=f"{name}-{life}", host=name)
        return RelayCore(hello, self.now, learner="tcp://learner:5555", weights_port=RELAY_PORT)

    def join(self, site: Site) -> SiteActor:
        """Starts one more actor at a site."""
        self.actors.append(SiteActor(f"actor{next(self._numbers)}", site, self.now))
        return self.actors[-1]

    def play(self, actor: SiteActor) -> None:
        """Lets an actor play one rollout, if it may."""
        if self.rollouts < ROLLOUTS:
            actor.play(self.now, self.rollouts)
            self.rollouts += 1

    # -- what is under way ---------------------------------------------------------------------------------------------

    def deliver_up(self, actor: SiteActor, index: int = 0) -> None:
        """Lets the relay read one of the actor's messages."""
        message, body = split(actor.wires.up.pop(index), by_learner=True)
        self.of_site(actor.site, actor.site.core.handle(self.now, actor.name.encode(), message, body))

    def deliver_down(self, actor: SiteActor, index: int = 0) -> None:
        message, body = split(actor.wires.down.pop(index))
        actor.do(actor.core.handle(self.now, message, body))

    def deliver_news(self, actor: SiteActor) -> None:
        frame = actor.wires.news[-1]
        actor.wires.news.clear()
        actor.do(actor.core.broadcast(self.now, frame))

    def deliver_sum(self, site: Site, index: int = 0) -> None:
        """Lets the learner read one of the relay's messages."""
        message, body = split(site.wires.up.pop(index), by_learner=True)
        self._of_learner(self.learner.handle(self.now, site.name.encode(), message, body))

    def deliver_answer(self, site: Site, index: int = 0) -> None:
        """Lets the relay read one of the learner's messages."""
        message, body = split(site.wires.down.pop(index))
        self.of_site(site, site.core.heard(self.now, message, body))

    def deliver_broadcast(self, site: Site) -> None:
        frame = site.wires.news[-1]
        site.wires.news.clear()
        self.of_site(site, site.core.broadcast(self.now, frame))

    def tick(self, seconds: float) -> None:
        """Lets time pass; each second, all do what is due."""
        until = self.now + seconds
        while True:
            self.now = min(self.now + 1.0, until)
            for effects in (
                self.learner.answer(self.now),
                self.learner.flush(self.now),
                self.learner.tick(self.now),
            ):
                self._of_learner(effects)
            for site in self.sites:
                self.of_site(site, site.core.tick(self.now))
            for actor in self.actors:
                actor.do(actor.core.tick(self.now))
            if self.now >= until:
                break

    def settle(self, seconds: float = 0.1) -> None:
        """Delivers until nothing is under way."""
        self.tick(seconds)
        for _ in range(1000):
            self.tick(0.0)
            if not self._deliver_all():
                return
        raise AssertionError("the ends never stop talking")

    def _deliver_all(self) -> bool:
        busy = False
        for actor in self.actors:
            while actor.wires.up:
                busy = True
                self.deliver_up(actor)
            while actor.wires.down:
                busy = True
                self.deliver_down(actor)
            if actor.wires.news:
                self.deliver_news(actor)
        for site in self.sites:
            while site.wires.up:
                busy = True
                self.deliver_sum(site)
            while site.wires.down:
                busy = True
                self.deliver_answer(site)
            if site.wires.news:
                self.deliver_broadcast(site)
        return busy

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def restart_relay(self, site: Site) -> None:
        """Kills a relay and starts another of its name; its connections, and messages under way, are lost."""
        site.lives += 1
        site.core = self._relay(site.name, site.lives)
        site.wires.cut()
        for actor in self.actors:
            if actor.site is site:
                actor.wires.cut()
                actor.core.connected(self.now)

    def restart_learner(self, counters: Counters) -> None:
        """Restarts the learner in a new epoch; messages under way to it may still arrive."""
        self.epoch += 1
        self.start_learner(counters)
        for site in self.sites:
            site.wires.down.clear()
            site.wires.news.clear()

    # -- what came of it -----------------------------------------------------------------------------------------------

    def applied(self) -> list[int]:
        """Returns every rollout of every step taken, over all epochs."""
        bodies = [body for store in self.stores for added, _, _ in store.steps for body, _, _ in added]
        return [rollout for body in bodies for rollout in rollouts_in(body)]

    # ------------------------------------------------------------------------------------------------------------------

    def of_site(self, site: Site, effects: list[Effect]) -> None:
        """Carries out a relay's effects."""
        here = {actor.name.encode(): actor for actor in self.actors if actor.site is site}
        for effect in effects:
            match effect:
                case ToLearner():
                    site.wires.up.append(frames_of(effect.message, effect.body))
                    if isinstance(effect.message, Gradient):
                        site.sums.append((site.lives, effect.message, rollouts_in(bytes(effect.body or b""))))
                case ToSite() if effect.peer in here:
                    here[effect.peer].wires.down.append(frames_of(effect.message, effect.body))
                case Publish():
                    for actor in here.values():
                        actor.wires.news.append(effect.frame)
                case Serve():
                    site.served.append(effect)
                case Leave():
                    site.left = effect.reason
                case _:
                    site.told.append(str(effect))

    def _of_learner(self, effects: list[LearnerEffect]) -> None:
        sites = {site.name.encode(): site for site in self.sites} if hasattr(self, "sites") else {}
        for effect in effects:
            if isinstance(effect, ToSite) and effect.peer in sites:
                sites[effect.peer].wires.down.append(frames_of(effect.message, effect.body))
            elif isinstance(effect, Publish):
                assert Broadcast.unpack(effect.frame).epoch == self.epoch
                for site in self.sites:
                    site.wires.news.append(effect.frame)
